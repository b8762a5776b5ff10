#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "plan/routes.hpp"
#include "schedule/compose.hpp"

namespace terrace::detail {

std::vector<range> block_layout::block_of(int rank) const {
    std::vector<range> parts;
    for (std::size_t i = at(rank); i < blocks.size(); i += at(c.ranks)) parts.push_back(blocks[i]);
    return parts;
}

block_layout compose_blocks(const hierarchy& machine, std::span<const stage> stages,
                            std::span<const std::int64_t> counts, std::span<const int> tree) {
    for (const stage& s : stages)
        if (s.how != mode::scatter)
            throw plan_error(fmt::format("stages: mode {} cannot leave every rank with its own block; only scatter can",
                                         to_string(s.how)));
    return in_blocks(compose(machine, stages, fine_count(machine), 1, -1, tree), machine, stages, counts);
}

// Lets each rank's block (its part on the route) stand for a point of the rank's largest part. A cut through the fine
// vector is a cut between the blocks before it and those behind.
block_layout in_blocks(composition fine, const hierarchy& machine, std::span<const stage> stages,
                       std::span<const std::int64_t> counts) {
    block_layout result{std::move(fine), {}, false};
    composition& c = result.c;

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
    std::vector<std::pair<std::int64_t, std::int64_t>> before;  // point, elements of blocks up to and with it
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
