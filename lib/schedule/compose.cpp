#include "schedule/compose.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/likeness.hpp"
#include "base/partition.hpp"

namespace terrace {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The owned parts of one domain, consecutive, covering the vector.
using ownership = std::vector<owned>;

// Appends, joining neighbours of the same owners.
void append(ownership& map, range part, const std::vector<int>& owners) {
    if (part.empty()) return;
    if (!map.empty() && map.back().part.end == part.begin && map.back().owners == owners) map.back().part.end = part.end;
    else map.push_back({part, owners});
}

// Calls f(segment, owners of each sibling) for every segment of the common refinement of the siblings' ownership maps.
template <class F>
void for_each_segment(std::span<const ownership* const> siblings, std::int64_t count, F&& f) {
    std::vector<std::size_t> piece(siblings.size(), 0);
    std::vector<const std::vector<int>*> owners(siblings.size());
    for (std::int64_t begin = 0; begin < count;) {
        std::int64_t end = count;
        for (std::size_t s = 0; s < siblings.size(); ++s) {
            const owned& o = (*siblings[s])[piece[s]];
            owners[s] = &o.owners;
            end = std::min(end, o.part.end);
        }
        f(range{begin, end}, owners);
        for (std::size_t s = 0; s < siblings.size(); ++s) piece[s] += (*siblings[s])[piece[s]].part.end == end;
        begin = end;
    }
}

bool contains(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

// How many steps a generator takes, the same for every position.
int steps_of(algorithm::generator g, int size) {
    if (g == nullptr) return 0;
    std::vector<int> members(at(size));
    std::vector<range> shards(at(size));
    for (int i = 0; i < size; ++i) {
        members[at(i)] = i;
        shards[at(i)] = {i, i + 1};
    }
    builder out(0, size, collective::allreduce, size);
    g(out, {.members = members, .shards = shards, .whole = {0, size}});
    return out.step();
}

// Domains that are alike divide the vector alike: who owns what is found once for all of a kind, with ranks counted from the
// domain's first.
class composer {
public:
    /// @param rank whose cohorts are wanted; -1: everybody's
    composer(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
             int root, int rank)
        : shape_(stage_tree(machine, stages)),
          kinds_(shape_, root),
          stages_(stages),
          quantum_(quantum),
          root_(root),
          rank_(rank) {
        result_.ranks = machine.ranks();
        result_.count = count;
    }

    composition run() {
        append(known_[0], {0, result_.count}, {0});  // each rank by itself
        for (level_ = 0; level_ < shape_.depth(); ++level_) {
            begin_stage();
            std::map<int, ownership> next;
            for (int d = 0; d < shape_.domains(level_); ++d) {
                const auto [known, is_new] = next.try_emplace(kinds_.of(level_, d));
                if (is_new || is_wanted(d)) combine(d, is_new ? &known->second : nullptr);
            }
            known_ = std::move(next);
            finish_stage();
        }
        result_.owners = std::move(known_.begin()->second);
        if (!for_all()) std::erase_if(result_.owners, [&](const owned& o) { return !contains(o.owners, rank_); });
        return std::move(result_);
    }

private:
    bool for_all() const { return rank_ < 0; }
    bool is_wanted(int domain) const { return for_all() || shape_.domain_of(level_, rank_) == domain; }
    const ownership& of_child(int child) const { return known_.at(level_ == 0 ? 0 : kinds_.of(level_ - 1, child)); }

    void begin_stage() {
        const stage& s = stages_[at(level_)];
        composed_stage& made = result_.stages.emplace_back();
        made.how = s.how;
        made.by = find_algorithm(s.algorithm);
        if (made.by == nullptr)
            fail(fmt::format("there is no algorithm \"{}\"; for mode {}: {}", s.algorithm, to_string(s.how),
                             algorithm_names(s.how)));
        if (!made.by->supports(s.how))
            fail(fmt::format("algorithm {} does not do mode {}; these do: {}", s.algorithm, to_string(s.how),
                             algorithm_names(s.how)));
    }

    // One domain's stage: a cohort per segment and replica. `after`, unless null: who owns what afterwards; of the
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
        const int mine = !for_all() && is_wanted(domain) ? shape_.domain_of(level_ - 1, rank_) : -1;
        int ordinal = 0, number = 0;
        for_each_segment(siblings, result_.count, [&](range segment, const std::vector<const std::vector<int>*>& owners) {
            const auto replicas = static_cast<int>(owners.front()->size());
            for (const std::vector<int>* each : owners)
                if (static_cast<int>(each->size()) != replicas)
                    fail(fmt::format("mode replicate below siblings of unequal size ({} and {} ranks)", replicas,
                                     each->size()));
            const bool is_member =
                mine >= 0 && contains(*owners[at(mine - first)], rank_ - shape_.first_rank(level_ - 1, mine));
            if (for_all() || is_member || (after != nullptr && !partly))
                add_cohorts(domain, segment, owners, ordinal, number, partly && !is_member ? nullptr : after);
            ++ordinal;
            number += replicas;
        });
    }

    // Replicas of a segment run the same stage side by side, each among themselves, and stay replicas.
    void add_cohorts(int domain, range segment, const std::vector<const std::vector<int>*>& owners, int ordinal, int number,
                     ownership* after) {
        composed_stage& stage = result_.stages.back();
        const int size = static_cast<int>(owners.size()), child = shape_.first_child(level_, domain);
        std::vector<std::vector<int>> members(owners.front()->size());
        for (int i = 0; i < size; ++i)
            for (std::size_t replica = 0; replica < members.size(); ++replica)
                members[replica].push_back(shape_.first_rank(level_ - 1, child + i) + (*owners[at(i)])[replica]);
        const int root = root_position(members.front(), ordinal);
        std::vector<range> shards;
        const std::vector<int>& weights = stages_[at(level_)].weights;
        if (!weights.empty()) shards = weighted(segment, weights);
        for (int i = 0; i < size && weights.empty(); ++i) shards.push_back(partition(segment, size, i, quantum_));

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
            if (for_all() || contains(replica, rank_))
                stage.cohorts.push_back({segment, std::move(replica), shards, root, number});
            ++number;
        }
    }

    // As many equal parts for each as its weight says.
    std::vector<range> weighted(range segment, const std::vector<int>& weights) const {
        const int all = std::accumulate(weights.begin(), weights.end(), 0);
        std::vector<range> shards;
        std::int64_t begin = segment.begin;
        int parts = 0;
        for (const int w : weights) {
            parts += w;
            const std::int64_t end = parts == 0 ? begin : partition(segment, all, parts - 1, quantum_).end;
            shards.push_back({begin, end});
            begin = end;
        }
        return shards;
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
        for (int c = 0; c < static_cast<int>(stage.cohorts.size()); ++c)
            for (const int rank : stage.cohorts[at(c)].members)
                if (for_all() || rank == rank_) stage.of_rank[at(rank - stage.first_rank)].push_back(c);
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
        throw stage_error(level_, fmt::format("stages[{}]: {}", level_, why));
    }

    tree shape_;
    likeness kinds_;
    std::span<const stage> stages_;
    std::int64_t quantum_;
    int root_, rank_;
    composition result_;
    int level_ = 0;                   // of shape_, and the stage
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

void check_runnable(const recipe& r) {
    for (const auto& [what, rules] : r.rules)
        for (std::size_t i = 0; i < rules.size(); ++i) {
            try {
                compose_for(0, r.machine, rules[i].stages, r.machine.ranks(), 1);
            } catch (const stage_error& e) {
                const std::string message = fmt::format("{}.rules[{}].{}", to_string(what), i, e.what());
                if (r.file.empty()) throw plan_error(message);
                const origin written = rules[i].stages[at(e.number())].written;
                throw input_error(r.file, written.line, written.column, message);
            }
        }
}

// Composes a vector so fine that every rank owns a part of it, and lets each rank's block stand for a point of the
// rank's largest part. A cut through the fine vector is a cut between the blocks before it and those behind.
block_layout compose_blocks(const hierarchy& machine, std::span<const stage> stages,
                            std::span<const std::int64_t> counts) {
    for (const stage& s : stages)
        if (s.how != mode::scatter)
            throw plan_error(fmt::format("stages: mode {} cannot leave every rank with its own block; only scatter can",
                                         to_string(s.how)));
    const std::int64_t fine = std::int64_t{machine.ranks()} << 20;
    block_layout result{compose(machine, stages, fine, 1), std::vector<range>(counts.size())};
    composition& c = result.c;

    std::vector<range> largest(counts.size());
    for (const owned& o : c.owners) {
        range& mine = largest[at(o.owners.front())];
        if (o.part.count() > mine.count()) mine = o.part;
    }
    std::map<std::int64_t, int> points;
    for (int r = 0; r < c.ranks; ++r) points[largest[at(r)].begin + largest[at(r)].count() / 2] = r;
    std::vector<std::pair<std::int64_t, std::int64_t>> before;  // point, elements of blocks up to and with it
    std::int64_t total = 0;
    for (const auto& [point, r] : points) {
        result.blocks[at(r)] = {total, total + counts[at(r)]};
        before.emplace_back(point, total += counts[at(r)]);
    }
    const auto cut = [&](std::int64_t x) {
        const auto next = std::lower_bound(before.begin(), before.end(), std::pair(x, std::int64_t{0}));
        return next == before.begin() ? 0 : std::prev(next)->second;
    };
    const auto coarse = [&](range& r) { r = {cut(r.begin), cut(r.end)}; };
    for (composed_stage& stage : c.stages)
        for (cohort& k : stage.cohorts) {
            coarse(k.segment);
            for (range& shard : k.shards) coarse(shard);
        }
    for (owned& o : c.owners) coarse(o.part);
    c.count = total;
    return result;
}

}  // namespace terrace
