#include "schedule/group_proof.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/index.hpp"
#include "schedule/compose.hpp"
#include "schedule/lower.hpp"
#include "schedule/node_rings.hpp"
#include "schedule/verify.hpp"

namespace terrace::detail {

namespace {

struct misfit {
    std::string text;
};

// A part of the vector on a rank, summed over ranks [first, end) in the plan's order or in that of a route.
struct sum {
    range part;
    int first = 0, end = 0;
    int route = 0;  // route of the part, from 1; 0: none yet
};

// Tracks the sums that ranks have from stage to stage, from the groups alone.
// @param forwards after the way up, roots of stages in mode root hold the data of the owners in their groups
class replay {
public:
    replay(const composition& c, bool forwards) : composition_(c), owners_(c.owners), has_(at(c.ranks)) {
        if (forwards) find_holders();
        for (int r = 0; r < c.ranks; ++r)
            if (c.count > 0) has_[at(r)] = {{{0, c.count}, r, r + 1}};
        for (const std::vector<int>& route : c.routes) {
            std::vector<int>& places = places_.emplace_back(at(c.ranks), -1);
            for (std::size_t place = 0; place < route.size(); ++place)
                places[at(route[place])] = static_cast<int>(place);
        }
    }

    // Returns nothing if in the end the owners, and no others, have every rank's contribution to the parts that they
    // own, else the fault.
    std::optional<std::string> find_fault() {
        try {
            for (stage_ = 0; stage_ < composition_.stages.size(); ++stage_) run_stage(composition_.stages[stage_]);
            check_owners();
        } catch (const misfit& f) {
            return f.text;
        }
        return {};
    }

private:
    void run_stage(const composed_stage& s) {
        std::vector<std::vector<sum>> made(has_.size());
        for (const group& g : s.groups) combine(s, g, made);
        for (std::size_t r = 0; r < has_.size(); ++r) {
            made[r].insert(made[r].end(), has_[r].begin(), has_[r].end());
            has_[r] = joined(std::move(made[r]));
        }
    }

    static std::vector<sum> joined(std::vector<sum> parts) {
        std::sort(parts.begin(), parts.end(), [](const sum& a, const sum& b) { return a.part.begin < b.part.begin; });
        std::vector<sum> result;
        for (const sum& s : parts) {
            const bool goes_on = !result.empty() && result.back().part.end == s.part.begin &&
                                 result.back().first == s.first && result.back().end == s.end &&
                                 result.back().route == s.route;
            if (goes_on) result.back().part.end = s.part.end;
            else result.push_back(s);
        }
        return result;
    }

    void combine(const composed_stage& s, const group& g, std::vector<std::vector<sum>>& made) {
        if (g.whole().empty()) return;
        int first = 0, end = 0, has_root = group::no_root;
        for (std::size_t i = 0; i < g.members().size(); ++i) {
            const sum taken = take(g.members()[i], g.whole(), s.route);
            if (i > 0 && taken.first != end)
                refuse(g, fmt::format("rank {} brings the sum of ranks {} to {} where {} is next", g.members()[i],
                                      taken.first, taken.end - 1, end));
            if (i == 0) first = taken.first;
            end = taken.end;
            if (taken.first <= root_of(s) && root_of(s) < taken.end) has_root = static_cast<int>(i);
        }
        if (s.how == mode::root && has_root == group::no_root) has_root = g.root();
        if (s.how != mode::replicate && composition_.root >= 0 && has_root != g.root())
            refuse(g, fmt::format("its root is position {}, but the call's is in position {}", g.root(), has_root));
        std::int64_t covered = g.whole().begin;
        for (const range& shard : g.shards()) {
            if (shard.begin != covered && !shard.empty()) refuse(g, "its shards do not cover it");
            covered = std::max(covered, shard.end);
        }
        if (covered != g.whole().end) refuse(g, "its shards do not cover it");
        for (std::size_t i = 0; i < g.members().size(); ++i) {
            const range kept = s.how == mode::scatter ? g.shards()[i] : g.whole();
            const bool keeps = s.how != mode::root || static_cast<int>(i) == g.root();
            if (keeps && !kept.empty()) made[at(g.members()[i])].push_back({kept, first, end, s.route});
        }
    }

    // Removes from a rank the sum that it brings to a group, so no other group of the stage can use it.
    sum take(int rank, range part, int route) {
        std::vector<sum>& mine = has_[at(rank)];
        for (std::size_t i = 0; i < mine.size(); ++i) {
            const sum had = mine[i];
            if (part.begin < had.part.begin || part.end > had.part.end) continue;
            mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(i));
            const auto put_back = [&](range rest) {
                if (!rest.empty()) mine.push_back({rest, had.first, had.end, had.route});
            };
            put_back({had.part.begin, part.begin});
            put_back({part.end, had.part.end});
            return on(route, {part, had.first, had.end, had.route});
        }
        throw misfit{fmt::format("stage {}: rank {} is to bring elements {} to {}, which it has not", stage_ + 1, rank,
                                 part.begin, part.end - 1)};
    }

    // Returns the root of the call, in the order of the stage's route; -1: none.
    int root_of(const composed_stage& s) const {
        const int root = composition_.root;
        return root < 0 || s.route == 0 ? root : places_[at(s.route - 1)][at(root)];
    }

    // Moves a sum to a route. Its ranks must be consecutive in the order of that route, too.
    sum on(int route, sum s) const {
        if (s.route == route) return s;
        if (s.route != 0 || at(route) > places_.size())
            throw misfit{fmt::format("stage {}: elements {} to {} have taken another route", stage_ + 1, s.part.begin,
                                     s.part.end - 1)};
        const std::vector<int>& places = places_[at(route - 1)];
        const int first = places[at(s.first)];
        for (int r = s.first; r < s.end; ++r)
            if (places[at(r)] != first + r - s.first)
                throw misfit{fmt::format("route {}: ranks {} and {} have been summed up and do not stand side by side",
                                         route, s.first, r)};
        return {s.part, first, first + s.end - s.first, route};
    }

    // Replaces each owner by the rank that must have the owner's part before the way down: the root of the owner's
    // group, from the innermost stage outwards.
    void find_holders() {
        std::vector<std::vector<owned*>> carried(at(composition_.ranks));
        for (owned& o : owners_)
            if (!o.part.empty()) carried[at(o.owners.front())].push_back(&o);
        for (const composed_stage& s : composition_.stages) {
            if (s.how != mode::root) continue;
            std::vector<std::vector<owned*>> after(carried.size());
            for (const group& g : s.groups)
                for (const int member : g.members())
                    std::erase_if(carried[at(member)], [&](owned* o) {
                        if (o->part.begin < g.whole().begin || o->part.end > g.whole().end) return false;
                        o->owners = {g.rank(g.root())};
                        after[at(o->owners.front())].push_back(o);
                        return true;
                    });
            for (std::size_t r = 0; r < after.size(); ++r)
                after[r].insert(after[r].end(), carried[r].begin(), carried[r].end());
            carried = std::move(after);
        }
    }

    // Checks that in the end the owners, and no others, have the sum of all ranks.
    void check_owners() {
        std::int64_t owned_parts = 0, had_parts = 0;
        for (const owned& o : owners_)
            for (const int rank : o.owners) {
                owned_parts += o.part.count();
                if (o.part.empty()) continue;
                const sum all = take(rank, o.part, o.route);
                if (all.first != 0 || all.end != composition_.ranks)
                    throw misfit{
                        fmt::format("rank {} ends with the sum of ranks {} to {} alone", rank, all.first, all.end - 1)};
                had_parts += o.part.count();
            }
        for (const std::vector<sum>& left : has_)
            for (const sum& s : left) had_parts += s.part.count();
        if (had_parts != owned_parts) throw misfit{"parts of the vector are left where nobody asks for them"};
    }

    [[noreturn]] void refuse(const group& g, const std::string& why) const {
        throw misfit{fmt::format("stage {}: the group of rank {} for elements {} to {}: {}", stage_ + 1,
                                 g.members().front(), g.whole().begin, g.whole().end - 1, why)};
    }

    const composition& composition_;
    std::vector<owned> owners_;             // after the way up
    std::vector<std::vector<sum>> has_;     // by rank
    std::vector<std::vector<int>> places_;  // by route and rank
    std::size_t stage_ = 0;
};

// Returns counts of elements, by shard, that represent those of a group: parts that a generator cuts from shards, or in
// mode root from the whole, are empty exactly if those of the group are.
std::vector<std::int64_t> represented(const composed_stage& s, const group& g) {
    std::int64_t cuts = s.by->cuts;
    if (s.by->graph == message_graph::node_rings) cuts *= std::ssize(node_rings(g.nodes(), g.size()));
    std::vector<std::int64_t> counts(at(g.size()));
    if (s.how == mode::root) counts[0] = std::min(g.whole().count(), cuts);
    else
        for (int i = 0; i < g.size(); ++i) counts[at(i)] = std::min(g.shards()[at(i)].count(), cuts);
    return counts;
}

std::string nodes_text(const group& g) {
    std::string text;
    for (const int node : g.nodes()) text += fmt::format(" {}", node - g.nodes().front());
    return text;
}

std::string kind_of(const composed_stage& s, const group& g) {
    std::string kind = fmt::format("{} {} {} {}", s.by->name, to_string(s.how), to_string(s.wire), g.size());
    if (s.how == mode::root || g.root() != group::no_root) kind += fmt::format(" root {}", g.root());
    return kind + fmt::format(" {} nodes{}", fmt::join(represented(s, g), ","), nodes_text(g));
}

std::string kind_of_exchange(const composed_stage& s, const group& g) {
    return fmt::format("exchange {} {} nodes{}", s.by->name, g.size(), nodes_text(g));
}

// Returns one group alone, with its members renumbered and its shards as short as represented() allows.
composition alone(const composed_stage& s, const group& g) {
    const int size = static_cast<int>(g.members().size());
    composition c{.ranks = size, .root = g.root(), .count = 0, .stages = {}, .owners = {}, .routes = {}};
    std::vector<int> members = numbers_below(size);
    std::vector<range> shards;
    for (const std::int64_t count : represented(s, g)) {
        if (s.how == mode::scatter)
            c.owners.push_back({{c.count, c.count + count}, {static_cast<int>(shards.size())}, 0});
        shards.push_back({c.count, c.count + count});
        c.count += count;
    }
    if (s.how == mode::root) c.owners = {{{0, c.count}, {g.root()}, 0}};
    if (s.how == mode::replicate) c.owners = {{{0, c.count}, members, 0}};
    c.stages.push_back({.how = s.how,
                        .by = s.by,
                        .steps_up = s.steps_up,
                        .steps_down = s.steps_down,
                        .steps_at_root = s.steps_at_root,
                        .largest = size,
                        .meets_root = g.root() != group::no_root,
                        .groups = {group(std::move(members), std::move(shards), g.root()).with_nodes(g.nodes())},
                        .of_rank = std::vector(at(size), std::vector{0}),
                        .wire = s.wire});
    return c;
}

// Returns a stage that forwards blocks, as in mode scatter from a root. Its steps suffice for any algorithm.
composed_stage forwarding_of(const composed_stage& s) {
    composed_stage hands;
    hands.by = s.by->supports(mode::scatter) ? s.by : find_algorithm("direct");
    hands.steps_up = hands.steps_down = hands.steps_at_root = 2 * s.largest;
    return hands;
}

// Proves the programs of a group alone: as messages and, if a provider runs the stage, as one stage, with the vector's
// home in scratch (Terrace's shared memory) and in recv (the callers' buffers).
std::optional<std::string> prove_alone(const composition& c) {
    const composed_stage& s = c.stages.front();
    const group& g = s.groups.front();
    capabilities runs_all;
    runs_all.stages = ~0u;
    const auto prove = [&](collective what, const capabilities& can, buffer home) {
        std::vector<std::int64_t> begins;
        for (const range& shard : g.shards()) begins.push_back(shard.begin);
        std::vector<schedule> programs;
        for (int r = 0; r < c.ranks; ++r)
            programs.push_back(lower(row_of(what).blocks ? generate(block_layout{c, g.shards()}, what, r, begins)
                                                         : generate(c, what, r, can, home),
                                     can));
        return find_fault(programs,
                          {.root = g.root(), .blocks = row_of(what).blocks ? g.shards() : std::vector<range>{}});
    };
    std::vector<collective> parts{collective::allreduce};
    if (s.how == mode::scatter) parts = {collective::reduce_scatter, collective::allgather};
    if (s.how == mode::root || g.root() != group::no_root) parts = {collective::reduce, collective::broadcast};
    for (const collective what : parts)
        if (const auto fault = prove(what, {}, buffer::recv)) return fmt::format("{}: {}", to_string(what), *fault);
    if (!follows_buffers(s.by->provider)) return {};
    if (s.how == mode::scatter) parts.push_back(collective::allreduce);
    for (const collective what : parts)
        for (const buffer home : {buffer::scratch, buffer::recv})
            if (const auto fault = prove(what, runs_all, home))
                return fmt::format("{} in shared memory: {}", to_string(what), *fault);
    return {};
}

// Proves the exchange of a group alone, in which each member has one element for each other member.
std::optional<std::string> prove_exchange_alone(const composed_stage& s, const group& g) {
    const composition c = alone(s, g);
    const group& of = c.stages.front().groups.front();
    std::vector<schedule> programs;
    const std::vector<range> blocks = group::numbered(c.ranks).shards();
    for (int r = 0; r < c.ranks; ++r) {
        builder out(r, c.ranks, collective::alltoall, c.ranks, {buffer::recv, false});
        std::vector<operand> gives, gets;
        for (const range b : blocks) gives.push_back({buffer::send, b}), gets.push_back({buffer::recv, b});
        out.next_step();
        out.copy(gets[at(r)], gives[at(r)]);
        s.by->exchange(out, of.seen_from(r), gives, gets);
        programs.push_back(lower(out.finish(), {}));
    }
    return find_fault(programs, {.root = 0, .blocks = blocks});
}

}  // namespace

std::optional<std::string> group_proof::prove_groups(const composed_stage& s, std::span<const group> groups,
                                                     bool exchanges) {
    const auto is_new = [&](std::string kind) {
        const std::scoped_lock lock(mutex_);
        return proved_.insert(std::move(kind)).second;
    };
    for (const group& g : groups) {
        if (g.whole().empty() || !is_new(exchanges ? kind_of_exchange(s, g) : kind_of(s, g))) continue;
        if (const auto fault = exchanges ? prove_exchange_alone(s, g) : prove_alone(alone(s, g)))
            return fmt::format("{} over {} ranks, mode {}, {}", s.by->name, g.members().size(), to_string(s.how),
                               *fault);
    }
    return {};
}

std::optional<std::string> group_proof::prove_groups(const composition& c, bool exchanges) {
    for (const composed_stage& s : c.stages) {
        if (auto fault = prove_groups(s, s.groups, exchanges)) return fault;
        if (auto fault = prove_groups(forwarding_of(s), s.forwarding, false)) return fault;
    }
    return {};
}

std::optional<std::string> group_proof::find_fault(const composition& c) {
    if (auto fault = replay(c, false).find_fault()) return fault;
    return prove_groups(c, false);
}

std::optional<std::string> group_proof::find_fault(const block_layout& b, bool exchanges) {
    if (auto fault = check_blocks(b)) return fault;
    if (auto fault = replay(b.c, true).find_fault()) return fault;
    return prove_groups(b.c, exchanges);
}

std::optional<std::string> group_proof::check_blocks(const block_layout& b) const {
    std::vector<range> owned(b.blocks.size());
    for (const terrace::detail::owned& o : b.c.owners)
        for (const int rank : o.owners) {
            const int route = std::max(o.route - 1, 0);
            range& all = owned[at(route * b.c.ranks + rank)];
            if (o.part.empty()) continue;
            all = all.empty() ? o.part : range{std::min(all.begin, o.part.begin), std::max(all.end, o.part.end)};
        }
    for (std::size_t i = 0; i < owned.size(); ++i)
        if (!b.blocks[i].empty() && !(owned[i] == b.blocks[i]))
            return fmt::format("rank {} does not end with its own block", i % at(b.c.ranks));
    return {};
}

}  // namespace terrace::detail
