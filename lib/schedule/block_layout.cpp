#include "schedule/block_layout.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/partition.hpp"
#include "plan/routes.hpp"
#include "schedule/collective_call.hpp"

namespace terrace::detail {

namespace {

// Divides the largest part that each group's root owns among all members, whose blocks are then consecutive and in
// order. A root alone in its rack may own one part per shard of another rack. Its other parts get no block.
void divide_root_parts(const composed_stage& s, std::vector<owned>& owners) {
    std::map<int, range> largest;  // by the group's index
    std::vector<owned> after;
    for (const owned& o : owners) {
        bool hands_on = false;
        for (const int index : s.groups_of(o.owners.front())) {
            const group& g = s.groups[at(index)];
            if (g.rank(g.root()) != o.owners.front() || !g.whole().overlaps(o.part)) continue;
            hands_on = true;
            if (range& part = largest[index]; o.part.count() > part.count()) part = o.part;
        }
        if (!hands_on) after.push_back(o);
    }
    for (const auto& [index, part] : largest) {
        const group& g = s.groups[at(index)];
        for (int i = 0; i < g.size(); ++i) after.push_back({partition(part, g.size(), i, 1), {g.rank(i)}});
    }
    owners = std::move(after);
}

// Finds the blocks that the root of each group has for every member, from the innermost stage outwards.
void find_forwarding(block_layout& b) {
    std::vector<range> held = b.blocks;
    for (composed_stage& s : b.c.stages) {
        if (s.how != mode::root) return;
        for (const group& g : s.groups) {
            std::vector<range> shards;
            for (const int member : g.members()) shards.push_back(held[at(member)]);
            held[at(g.rank(g.root()))] = {shards.front().begin, shards.back().end};
            s.forwarding.push_back(g.with_shards(std::move(shards)));
        }
    }
}

}  // namespace

std::vector<range> block_layout::held_by(int rank) const {
    std::vector<range> parts = block_of(rank);
    for (const composed_stage& s : c.stages) {
        if (s.forwarding.empty()) continue;
        for (const int index : s.groups_of(rank)) {
            const group& g = s.forwarding[at(index)];
            if (g.rank(g.root()) != rank) return {};
            parts = {g.whole()};
        }
    }
    return parts;
}

range ranks_around(const tree& shape, int level, int rank) {
    const int domain = shape.domain_of(level, rank);
    return {shape.first_rank(level, domain), shape.first_rank(level, domain + 1)};
}

group forwarding_of(const group& g, const tree& shape, int level) {
    std::vector<std::int64_t> ranks;
    for (const int member : g.members()) ranks.push_back(ranks_around(shape, level - 1, member).count());
    return g.with_shards(side_by_side(ranks));
}

void expect_none(const stage_fault& fault) {
    if (fault) throw stage_error(fault->first, fmt::format("stages[{}]: {}", fault->first, fault->second));
}

stage_fault fault_of_blocks(std::span<const stage> stages) {
    const bool has_routes = std::ranges::any_of(stages, [](const stage& s) { return s.route_share > 0; });
    for (int n = 0; n < static_cast<int>(stages.size()); ++n) {
        const mode how = stages[at(n)].how;
        const auto fault = [&](std::string_view why) {
            return std::pair(n, fmt::format("mode {} {}", to_string(how), why));
        };
        if (how == mode::replicate)
            return fault("cannot leave every rank with its own block; only scatter and root can");
        if (how != mode::root) continue;
        if (n > 0 && stages[at(n - 1)].how != mode::root) return fault("after mode scatter; of blocks it comes first");
        if (has_routes) return fault("beside route_share; blocks that one rank hands on take one way");
    }
    return {};
}

block_layout compose_blocks(const hierarchy& machine, std::span<const stage> stages,
                            std::span<const std::int64_t> counts, std::span<const int> tree) {
    expect_none(fault_of_blocks(stages));
    block_layout made = in_blocks(compose(machine, stages, fine_count(machine), 1, -1, tree), machine, stages, counts);
    find_forwarding(made);
    return made;
}

block_layout compose_block_groups(const hierarchy& machine, std::span<const stage> stages) {
    const route_view seen = route_view::in_plan_order(stage_tree(machine, stages), {.stages = stages});
    group_composer composer(fine_count(machine));
    composer.compose(seen, stages);
    return in_blocks(std::move(composer).groups(), machine, stages,
                     std::vector(at(machine.ranks()), std::int64_t{720720}));
}

// Places each rank's block (its part on the route) at the middle of the rank's largest part. A cut of the composed
// vector becomes a cut between the blocks before and after it.
block_layout in_blocks(composition fine, const hierarchy& machine, std::span<const stage> stages,
                       std::span<const std::int64_t> counts) {
    block_layout result{std::move(fine), {}, false};
    composition& c = result.c;
    for (std::size_t s = c.stages.size(); s-- > 0;)
        if (c.stages[s].how == mode::root) divide_root_parts(c.stages[s], c.owners);

    const routes ways = routes_of(machine, stages);
    const std::size_t parts = std::max<std::size_t>(1, c.routes.size());
    const std::vector<int> shares = ways.count() > 0 ? ways.shares : std::vector{1};
    std::vector<range> largest(parts * counts.size());
    for (const owned& o : c.owners) {
        range& mine = largest[at(std::max(o.route - 1, 0)) * counts.size() + at(o.owners.front())];
        if (o.part.count() > mine.count()) mine = o.part;
    }
    std::map<std::int64_t, std::size_t> points;
    for (std::size_t i = 0; i < largest.size(); ++i) points[largest[i].begin + largest[i].count() / 2] = i;
    result.blocks.resize(largest.size());
    std::vector<std::pair<std::int64_t, std::int64_t>> before;  // point, elements of blocks up to and including it
    std::int64_t total = 0;
    for (const auto& [point, i] : points) {
        const std::int64_t count = weighted({0, counts[i % counts.size()]}, shares, 1)[i / counts.size()].count();
        result.blocks[i] = {total, total + count};
        before.emplace_back(point, total += count);
    }
    const auto cut = [&](std::int64_t x) {
        const auto next = std::lower_bound(before.begin(), before.end(), std::pair(x, std::int64_t{0}));
        return next == before.begin() ? 0 : std::prev(next)->second;
    };
    const auto coarse = [&](range& r) { r = {cut(r.begin), cut(r.end)}; };
    for (composed_stage& stage : c.stages)
        for (group& g : stage.groups) {
            std::vector<range> shards = g.shards();
            for (range& shard : shards) coarse(shard);
            g = g.with_shards(std::move(shards));
        }
    for (owned& o : c.owners) coarse(o.part);
    c.count = total;
    return result;
}

}  // namespace terrace::detail
