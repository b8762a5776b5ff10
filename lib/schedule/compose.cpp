#include "schedule/compose.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"

namespace terrace {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Who in a domain holds the reduced value of a part of the vector: one rank, or after replicate several, each all of it.
struct owned {
    range part;
    std::vector<int> owners;
};

// The owned parts of one domain, consecutive, covering the vector.
using ownership = std::vector<owned>;

// Appends, joining neighbours of the same owners.
void append(ownership& map, range part, const std::vector<int>& owners) {
    if (part.empty()) return;
    if (!map.empty() && map.back().owners == owners) map.back().part.end = part.end;
    else map.push_back({part, owners});
}

// Calls f(segment, owners of each sibling) for every segment of the common refinement of the siblings' ownership maps.
template <class F>
void for_each_segment(std::span<const ownership> siblings, std::int64_t count, F&& f) {
    std::vector<std::size_t> piece(siblings.size(), 0);
    std::vector<const std::vector<int>*> owners(siblings.size());
    for (std::int64_t begin = 0; begin < count;) {
        std::int64_t end = count;
        for (std::size_t s = 0; s < siblings.size(); ++s) {
            const owned& o = siblings[s][piece[s]];
            owners[s] = &o.owners;
            end = std::min(end, o.part.end);
        }
        f(range{begin, end}, owners);
        for (std::size_t s = 0; s < siblings.size(); ++s) piece[s] += siblings[s][piece[s]].part.end == end;
        begin = end;
    }
}

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

class composer {
public:
    composer(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum)
        : shape_(stage_tree(machine, stages)), stages_(stages), quantum_(quantum) {
        result_.ranks = machine.ranks();
        result_.count = count;
    }

    composition run() {
        std::vector<ownership> domains(at(result_.ranks));
        for (int rank = 0; rank < result_.ranks; ++rank)
            append(domains[at(rank)], {0, result_.count}, {rank});
        for (int l = 0; l < shape_.depth(); ++l) {
            begin_stage(l);
            std::vector<ownership> next(at(shape_.domains(l)));
            for (int d = 0; d < shape_.domains(l); ++d)
                next[at(d)] = combine(std::span(domains).subspan(at(shape_.first_child(l, d)), at(shape_.children(l, d))));
            domains = std::move(next);
            finish_stage();
        }
        return std::move(result_);
    }

private:
    void begin_stage(int l) {
        const stage& s = stages_[at(l)];
        number_ = l;
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

    // One domain's stage: a cohort per segment and replica; returns who owns what afterwards.
    ownership combine(std::span<const ownership> siblings) {
        if (siblings.size() == 1) return siblings.front();
        ownership after;
        int ordinal = 0;
        for_each_segment(siblings, result_.count, [&](range segment, const std::vector<const std::vector<int>*>& owners) {
            const std::size_t replicas = owners.front()->size();
            std::vector<std::vector<int>> members(replicas);
            for (const std::vector<int>* each : owners) {
                if (each->size() != replicas)
                    fail(fmt::format("mode replicate below siblings of unequal size ({} and {} ranks)", replicas,
                                     each->size()));
                for (std::size_t replica = 0; replica < replicas; ++replica)
                    members[replica].push_back((*each)[replica]);
            }
            add_cohorts(segment, std::move(members), ordinal++, after);
        });
        return after;
    }

    // Replicas of a segment run the same stage side by side, each among themselves, and stay replicas.
    void add_cohorts(range segment, std::vector<std::vector<int>> members, int ordinal, ownership& after) {
        composed_stage& stage = result_.stages.back();
        const int size = static_cast<int>(members.front().size());
        const int root = wrap(ordinal, size);  // segments take turns, so that no sibling carries them all
        std::vector<range> shards;
        for (int i = 0; i < size; ++i) shards.push_back(partition(segment, size, i, quantum_));

        if (stage.how == mode::scatter) {
            for (int i = 0; i < size; ++i) append(after, shards[at(i)], position(members, i));
        } else if (stage.how == mode::root) {
            append(after, segment, position(members, root));
        } else {
            std::vector<int> all;
            for (int i = 0; i < size; ++i)
                for (const std::vector<int>& replica : members) all.push_back(replica[at(i)]);
            append(after, segment, all);
        }
        for (std::vector<int>& replica : members) stage.cohorts.push_back({segment, std::move(replica), shards, root});
    }

    static std::vector<int> position(const std::vector<std::vector<int>>& members, int i) {
        std::vector<int> ranks;
        for (const std::vector<int>& replica : members) ranks.push_back(replica[at(i)]);
        return ranks;
    }

    void finish_stage() {
        composed_stage& stage = result_.stages.back();
        stage.of_rank.resize(at(result_.ranks));
        std::set<std::size_t> measured;
        for (int c = 0; c < static_cast<int>(stage.cohorts.size()); ++c) {
            const std::vector<int>& members = stage.cohorts[at(c)].members;
            for (int rank : members) stage.of_rank[at(rank)].push_back(c);
            if (!measured.insert(members.size()).second) continue;
            const int size = static_cast<int>(members.size());
            stage.steps_up = std::max(stage.steps_up, steps_of(stage.by->up(stage.how), size));
            stage.steps_down = std::max(stage.steps_down, steps_of(stage.by->down(stage.how), size));
        }
    }

    [[noreturn]] void fail(const std::string& why) const {
        throw plan_error(fmt::format("stages[{}]: {}", number_, why));
    }

    tree shape_;
    std::span<const stage> stages_;
    std::int64_t quantum_;
    composition result_;
    int number_ = 0;
};

}  // namespace

composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum) {
    return composer(machine, stages, count, quantum).run();
}

schedule generate(const composition& c, collective what, int rank) {
    builder out(rank, c.ranks, what, c.count);
    const auto run = [&](int number, bool down) {
        const composed_stage& stage = c.stages[at(number)];
        const algorithm::generator emit = down ? stage.by->down(stage.how) : stage.by->up(stage.how);
        const int first = out.step();
        out.begin_phase({number, down});
        for (int index : stage.of_rank[at(rank)]) {
            const cohort& k = stage.cohorts[at(index)];
            const auto me = std::find(k.members.begin(), k.members.end(), rank) - k.members.begin();
            out.go_to_step(first);
            if (emit != nullptr) emit(out, {k.members, k.shards, k.segment, static_cast<int>(me), k.root});
        }
        out.go_to_step(first + (down ? stage.steps_down : stage.steps_up));
    };
    const int depth = static_cast<int>(c.stages.size());
    for (int s = 0; s < depth; ++s) run(s, false);
    for (int s = depth; s-- > 0;) run(s, true);
    return out.finish();
}

std::vector<schedule> generate_all(const composition& c, collective what) {
    std::vector<schedule> all;
    for (int rank = 0; rank < c.ranks; ++rank) all.push_back(generate(c, what, rank));
    return all;
}

}  // namespace terrace
