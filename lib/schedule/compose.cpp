#include "schedule/compose.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "machine/likeness.hpp"
#include "plan/routes.hpp"

namespace terrace::detail {

namespace {

// The owned parts of one domain, ascending. They cover the vector, or, the same in all domains, what takes one route.
using ownership = std::vector<owned>;

// Appends, joining neighbours of the same owners.
void append(ownership& map, range part, const std::vector<int>& owners) {
    if (part.empty()) return;
    if (!map.empty() && map.back().part.end == part.begin && map.back().owners == owners)
        map.back().part.end = part.end;
    else map.push_back({part, owners, 0});
}

// Calls f(segment, owners of each sibling) for every segment of the common refinement of the siblings' ownership maps.
template <class F>
void for_each_segment(std::span<const ownership* const> siblings, F&& f) {
    std::vector<std::size_t> piece(siblings.size(), 0);
    std::vector<const std::vector<int>*> owners(siblings.size());
    for (std::int64_t begin = 0; piece.front() < siblings.front()->size();) {
        std::int64_t end = std::numeric_limits<std::int64_t>::max();
        for (std::size_t s = 0; s < siblings.size(); ++s) {
            const owned& o = (*siblings[s])[piece[s]];
            owners[s] = &o.owners;
            begin = std::max(begin, o.part.begin);
            end = std::min(end, o.part.end);
        }
        f(range{begin, end}, owners);
        for (std::size_t s = 0; s < siblings.size(); ++s) piece[s] += (*siblings[s])[piece[s]].part.end == end;
        begin = end;
    }
}

bool contains(const std::vector<int>& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// How many steps a generator takes, the same for every position.
int steps_of(algorithm::generator g, int size) {
    if (g == nullptr) return 0;
    builder out(0, size, collective::allreduce, size);
    g(out, group::numbered(size));
    return out.step();
}

// As many equal parts for each as its weight says.
std::vector<range> weighted(range segment, const std::vector<int>& weights, std::int64_t quantum) {
    const int all = std::accumulate(weights.begin(), weights.end(), 0);
    std::vector<range> shards;
    std::int64_t begin = segment.begin;
    int parts = 0;
    for (const int w : weights) {
        parts += w;
        const std::int64_t end = parts == 0 ? begin : partition(segment, all, parts - 1, quantum).end;
        shards.push_back({begin, end});
        begin = end;
    }
    return shards;
}

// Domains that are alike divide the vector alike: who owns what is found once for all of a kind, with ranks counted
// from the domain's first.
class composer {
public:
    /// @param rank whose groups are wanted; -1: everybody's
    composer(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
             int root, int rank)
        : whole_(stage_tree(machine, stages)),
          routes_(routes_of(machine, stages)),
          stages_(stages),
          quantum_(quantum),
          root_(root),
          rank_(rank) {
        result_.ranks = machine.ranks();
        result_.count = count;
    }

    composition run() {
        std::vector<int> order(at(whole_.depth()));
        std::iota(order.begin(), order.end(), 0);
        take(whole_, std::move(order), {});
        append(known_[0], {0, result_.count}, {0});  // each rank by itself
        go_through(routes_.common);
        if (routes_.count() == 0) own();
        const std::map<int, ownership> known = std::move(known_);
        for (route_ = 1; route_ <= routes_.count(); ++route_) {
            turn_to(routes_.orders[at(route_ - 1)]);
            known_.clear();
            for (const auto& [kind, owns] : known) known_[kind] = part_of(owns);
            level_ = routes_.common;
            go_through(whole_.depth());
            own();
        }
        std::stable_sort(result_.owners.begin(), result_.owners.end(),
                         [](const owned& a, const owned& b) { return a.part.begin < b.part.begin; });
        return std::move(result_);
    }

private:
    bool for_all() const { return rank_ < 0; }
    bool is_wanted(int domain) const { return for_all() || shape_.domain_of(level_, me_) == domain; }
    const ownership& of_child(int child) const { return known_.at(level_ == 0 ? 0 : kinds_->of(level_ - 1, child)); }
    int number() const { return order_[at(level_)]; }
    const stage& now() const { return stages_[at(number())]; }

    // ---- routes ----

    void take(tree shape, std::vector<int> order, std::vector<int> names) {
        shape_ = std::move(shape);
        kinds_.emplace(shape_, root_);
        order_ = std::move(order);
        names_ = std::move(names);
        me_ = rank_;
        if (rank_ >= 0 && !names_.empty())
            me_ = static_cast<int>(std::find(names_.begin(), names_.end(), rank_) - names_.begin());
    }

    // The machine with its outer stages in another order. Its ranks are named by what they are in the true one.
    void turn_to(const std::vector<int>& outer) {
        std::vector<int> order(at(routes_.common));
        std::iota(order.begin(), order.end(), 0);
        order.insert(order.end(), outer.begin(), outer.end());
        std::vector<int> sizes;
        std::vector<std::int64_t> stride(order.size(), 1);  // between the ranks of neighbours, by stage
        for (std::size_t s = 1; s < stride.size(); ++s)
            stride[s] = stride[s - 1] * whole_.children(static_cast<int>(s) - 1, 0);
        for (const int s : order) sizes.push_back(whole_.children(s, 0));
        std::vector<int> names{0};
        for (std::size_t l = 0; l < order.size(); ++l) {
            const std::size_t inner = names.size();
            for (int i = 1; i < sizes[l]; ++i)
                for (std::size_t r = 0; r < inner; ++r)
                    names.push_back(names[r] + i * static_cast<int>(stride[at(order[l])]));
        }
        take(tree::uniform(sizes), std::move(order), names);
        result_.routes.push_back(std::move(names));
    }

    // Of all that somebody owns.
    ownership part_of(const ownership& whole) const {
        ownership part;
        for (const owned& o : whole) append(part, weighted(o.part, routes_.shares, quantum_)[at(route_ - 1)], o.owners);
        return part;
    }

    int name_of(int rank) const { return names_.empty() ? rank : names_[at(rank)]; }

    void own() {
        for (owned& o : known_.begin()->second) {
            if (!for_all() && !contains(o.owners, me_)) continue;
            for (int& owner : o.owners) owner = name_of(owner);
            o.route = route_;
            result_.owners.push_back(std::move(o));
        }
    }

    // ---- stages ----

    void go_through(int end) {
        for (; level_ < end; ++level_) {
            begin_stage();
            std::map<int, ownership> next;
            for (int d = 0; d < shape_.domains(level_); ++d) {
                const auto [known, is_new] = next.try_emplace(kinds_->of(level_, d));
                if (is_new || is_wanted(d)) combine(d, is_new ? &known->second : nullptr);
            }
            known_ = std::move(next);
            finish_stage();
        }
    }

    void begin_stage() {
        const stage& s = now();
        composed_stage& made = result_.stages.emplace_back();
        made.how = s.how;
        made.by = find_algorithm(s);
        made.number = number();
        made.route = route_;
        if (const std::string fault = fault_of(s); !fault.empty()) fail(fault);
        if (route_ > 0 && !s.sends())
            fail(
                fmt::format("provider {} runs one collective of a lane at a time, but stages with a route_share run "
                            "side by side; name an algorithm",
                            to_string(s.provider)));
    }

    // One domain's stage: a group per segment and replica. `after`, unless null: who owns what afterwards; of the
    // outermost stage only where the rank takes part, if it is for one.
    void combine(int domain, ownership* after) {
        const int first = shape_.first_child(level_, domain), children = shape_.children(level_, domain);
        if (children == 1) {
            if (after != nullptr) *after = of_child(first);
            return;
        }
        std::vector<const ownership*> siblings;
        for (int c = first; c < first + children; ++c) siblings.push_back(&of_child(c));
        const bool partly = !for_all() && level_ + 1 == shape_.depth();
        const int mine = !for_all() && is_wanted(domain) ? shape_.domain_of(level_ - 1, me_) : -1;
        int ordinal = 0, number = 0;
        for_each_segment(siblings, [&](range segment, const std::vector<const std::vector<int>*>& owners) {
            const auto replicas = static_cast<int>(owners.front()->size());
            for (const std::vector<int>* each : owners)
                if (static_cast<int>(each->size()) != replicas)
                    fail(fmt::format("mode replicate below siblings of unequal size ({} and {} ranks)", replicas,
                                     each->size()));
            const bool is_member =
                mine >= 0 && contains(*owners[at(mine - first)], me_ - shape_.first_rank(level_ - 1, mine));
            if (for_all() || is_member || (after != nullptr && !partly))
                add_groups(domain, segment, owners, ordinal, number, partly && !is_member ? nullptr : after);
            ++ordinal;
            number += replicas;
        });
    }

    // Replicas of a segment run the same stage side by side, each among themselves, and stay replicas.
    void add_groups(int domain, range segment, const std::vector<const std::vector<int>*>& owners, int ordinal,
                    int number, ownership* after) {
        composed_stage& stage = result_.stages.back();
        const int size = static_cast<int>(owners.size()), child = shape_.first_child(level_, domain);
        std::vector<std::vector<int>> members(owners.front()->size());
        for (int i = 0; i < size; ++i)
            for (std::size_t replica = 0; replica < members.size(); ++replica)
                members[replica].push_back(shape_.first_rank(level_ - 1, child + i) + (*owners[at(i)])[replica]);
        const int root = root_position(members.front(), ordinal);
        std::vector<range> shards;
        const std::vector<int>& shares = now().shares;
        if (!shares.empty()) shards = weighted(segment, shares, quantum_);
        for (int i = 0; i < size && shares.empty(); ++i) shards.push_back(partition(segment, size, i, quantum_));

        if (after != nullptr) {
            const int first = shape_.first_rank(level_, domain);
            std::vector<int> all;
            for (int i = 0; i < size; ++i) {
                std::vector<int> here;
                for (const std::vector<int>& replica : members) here.push_back(replica[at(i)] - first);
                if (stage.how == mode::scatter) append(*after, shards[at(i)], here);
                else if (stage.how == mode::root && i == root) append(*after, segment, here);
                all.insert(all.end(), here.begin(), here.end());
            }
            if (stage.how == mode::replicate) append(*after, segment, all);
        }
        for (std::vector<int>& replica : members) {
            for (int& member : replica) member = name_of(member);
            if (for_all() || contains(replica, rank_))
                stage.groups.emplace_back(std::move(replica), shards, root, number);
            ++number;
        }
    }

    // Segments take turns, so that no sibling carries them all.
    int root_position(const std::vector<int>& members, int ordinal) const {
        const auto given = std::find(members.begin(), members.end(), root_);
        if (given != members.end()) return static_cast<int>(given - members.begin());
        return wrap(ordinal, static_cast<int>(members.size()));
    }

    void finish_stage() {
        composed_stage& stage = result_.stages.back();
        stage.first_rank = for_all() ? 0 : rank_;
        stage.of_rank.resize(for_all() ? at(result_.ranks) : 1);
        for (int g = 0; g < static_cast<int>(stage.groups.size()); ++g)
            for (const int rank : stage.groups[at(g)].members())
                if (for_all() || rank == rank_) stage.of_rank[at(rank - stage.first_rank)].push_back(g);
        if (result_.count == 0) return;
        const std::vector<int>& sizes = shape_.children()[at(level_)];
        for (const int size : std::set(sizes.begin(), sizes.end())) {
            if (size == 1) continue;
            stage.largest = std::max(stage.largest, size);
            stage.steps_up = std::max(stage.steps_up, steps_of(stage.by->up(stage.how), size));
            stage.steps_down = std::max(stage.steps_down, steps_of(stage.by->down(stage.how), size));
        }
    }

    [[noreturn]] void fail(const std::string& why) const {
        throw stage_error(number(), fmt::format("stages[{}]: {}", number(), why));
    }

    tree whole_;
    routes routes_;
    std::span<const stage> stages_;
    std::int64_t quantum_;
    int root_, rank_;
    composition result_;
    int route_ = 0;  // from 1; 0: all
    // The machine as the route sees it.
    tree shape_;  // a level for each stage
    std::optional<likeness> kinds_;
    std::vector<int> order_;          // of the stages
    std::vector<int> names_;          // ranks, in its order; empty: as they are
    int me_ = -1;                     // rank_, in its order
    int level_ = 0;                   // of shape_
    std::map<int, ownership> known_;  // of the level's children, by kind
};

}  // namespace

composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
                    int root) {
    return composer(machine, stages, count, quantum, root, -1).run();
}

composition compose_for(int rank, const hierarchy& machine, std::span<const stage> stages, std::int64_t count,
                        std::int64_t quantum, int root) {
    return composer(machine, stages, count, quantum, root, rank).run();
}

std::vector<range> block_layout::block_of(int rank) const {
    std::vector<range> parts;
    for (std::size_t i = at(rank); i < blocks.size(); i += at(c.ranks)) parts.push_back(blocks[i]);
    return parts;
}

void check_runnable(const plan_data& r) {
    for (const auto& [what, rules] : r.rules)
        for (std::size_t i = 0; i < rules.size(); ++i) {
            try {
                compose_for(0, r.machine, rules[i].stages, r.machine.ranks(), 1);
            } catch (const stage_error& e) {
                const std::string message = fmt::format("{}.rules[{}].{}", to_string(what), i, e.what());
                if (r.file.empty()) throw plan_error(message);
                const source_location at_stage = rules[i].stages[at(e.number())].source;
                throw input_error(r.file, at_stage.line, at_stage.column, message);
            }
        }
}

// Composes a vector so fine that every rank owns a part of it (on each route), and lets each rank's block (its part on
// the route) stand for a point of the rank's largest part. A cut through the fine vector is a cut between the blocks
// before it and those behind.
block_layout compose_blocks(const hierarchy& machine, std::span<const stage> stages,
                            std::span<const std::int64_t> counts) {
    for (const stage& s : stages)
        if (s.how != mode::scatter)
            throw plan_error(fmt::format("stages: mode {} cannot leave every rank with its own block; only scatter can",
                                         to_string(s.how)));
    const std::int64_t fine = std::int64_t{machine.ranks()} << 20;
    block_layout result{compose(machine, stages, fine, 1), {}};
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
