#include "schedule/compose.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"

namespace terrace {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

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
    composer(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
             int root)
        : shape_(stage_tree(machine, stages)), stages_(stages), quantum_(quantum), root_(root) {
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
                next[at(d)] =
                    combine(std::span(domains).subspan(at(shape_.first_child(l, d)), at(shape_.children(l, d))));
            domains = std::move(next);
            finish_stage();
        }
        result_.owners = std::move(domains.front());
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
        domain_begin_ = result_.stages.back().cohorts.size();
        int ordinal = 0;
        for_each_segment(siblings, result_.count,
                         [&](range segment, const std::vector<const std::vector<int>*>& owners) {
                             const std::size_t replicas = owners.front()->size();
                             std::vector<std::vector<int>> members(replicas);
                             for (const std::vector<int>* each : owners) {
                                 if (each->size() != replicas)
                                     fail(fmt::format("mode replicate below siblings of unequal size ({} and {} ranks)",
                                                      replicas, each->size()));
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
        const int root = root_position(members.front(), ordinal);
        std::vector<range> shards;
        const std::vector<int>& weights = stages_[at(number_)].weights;
        if (!weights.empty()) shards = weighted(segment, weights);
        for (int i = 0; i < size && weights.empty(); ++i) shards.push_back(partition(segment, size, i, quantum_));

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
        for (std::vector<int>& replica : members) {
            const int number = static_cast<int>(stage.cohorts.size() - domain_begin_);
            stage.cohorts.push_back({segment, std::move(replica), shards, root, number});
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
        throw stage_error(number_, fmt::format("stages[{}]: {}", number_, why));
    }

    tree shape_;
    std::span<const stage> stages_;
    std::int64_t quantum_;
    int root_;
    composition result_;
    int number_ = 0;
    std::size_t domain_begin_ = 0;  // first cohort of the domain that is being combined
};

// Writes the program of one rank, stage by stage.
class writer {
public:
    writer(builder& out, const composition& c, int rank, collective what, const capabilities& can)
        : out_(out), c_(c), rank_(rank), what_(what), can_(can) {
        // Further out there may be stages of one member each, in which nothing happens.
        for (int s = 0; s < depth(); ++s)
            if (!c_.stages[at(s)].cohorts.empty()) outermost_ = s;
    }

    void up() {
        for (int s = 0; s < depth(); ++s) run_stage(s, false);
    }
    void down() {
        for (int s = depth(); s-- > 0;) run_stage(s, true);
    }

private:
    int depth() const { return static_cast<int>(c_.stages.size()); }

    // Emits the rank's part of a stage on the way up or down, and leaves the room that all ranks leave for it.
    void run_stage(int number, bool down) {
        const composed_stage& stage = c_.stages[at(number)];
        const int first = out_.step();
        out_.begin_phase({number, down});
        for (int index : stage.of_rank[at(rank_)]) {
            const cohort& k = stage.cohorts[at(index)];
            const algorithm::generator emit = generator_of(number, k, down);
            const auto me = std::find(k.members.begin(), k.members.end(), rank_) - k.members.begin();
            out_.go_to_step(first);
            if (emit != nullptr)
                emit(out_, {k.members, k.shards, k.segment, static_cast<int>(me), k.root, k.ordinal,
                            number == outermost_, stage.how == mode::scatter, delivers(number, k, down)});
        }
        out_.go_to_step(first + (down ? stage.steps_down : stage.steps_up));
    }

    algorithm::generator generator_of(int number, const cohort& k, bool down) const {
        const composed_stage& stage = c_.stages[at(number)];
        if (is_fused(number, k)) return down ? nullptr : stage.by->allreduce;
        return down ? stage.by->down(stage.how) : stage.by->up(stage.how);
    }

    // What an outermost stage scatters is gathered again at once: the transport may do both in one.
    bool is_fused(int number, const cohort& k) const {
        const composed_stage& stage = c_.stages[at(number)];
        return what_ == collective::allreduce && number == outermost_ && stage.by->native &&
               stage.how == mode::scatter && can_.runs(action::stage_allreduce, k.members, k.shards);
    }

    // A vector that consists of blocks stands in another order than the caller's.
    bool delivers(int number, const cohort& k, bool down) const {
        if (has_blocks(what_) || number > 0) return false;
        const bool comes_down = goes_down(what_) && c_.stages[at(number)].how != mode::replicate;
        return down || is_fused(number, k) || (depth() == 1 && !comes_down);
    }

    builder& out_;
    const composition& c_;
    int rank_;
    collective what_;
    const capabilities& can_;
    int outermost_ = -1;
};

}  // namespace

composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum,
                    int root) {
    return composer(machine, stages, count, quantum, root).run();
}

void check_runnable(const recipe& r) {
    for (const auto& [what, rules] : r.rules)
        for (std::size_t i = 0; i < rules.size(); ++i) {
            try {
                compose(r.machine, rules[i].stages, r.machine.ranks(), 1);
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

bool runs_natively(const composition& c, int rank, const capabilities& can) {
    return std::any_of(c.stages.begin(), c.stages.end(), [&](const composed_stage& s) {
        const std::vector<int>& mine = s.of_rank[at(rank)];
        return s.by->native && std::any_of(mine.begin(), mine.end(), [&](int k) {
                   return can.runs(action::stage_allreduce, s.cohorts[at(k)].members, s.cohorts[at(k)].shards);
               });
    });
}

schedule generate(const composition& c, collective what, int rank, const capabilities& can, buffer home) {
    // Ranks that only pass partial sums on to a root have nowhere but scratch to keep them.
    const bool keeps = what != collective::reduce || c.owners.empty() || c.owners.front().owners.front() == rank;
    builder out(rank, c.ranks, what, c.count, {keeps ? home : buffer::scratch, true});
    for (const owned& o : c.owners)
        if (std::find(o.owners.begin(), o.owners.end(), rank) != o.owners.end()) out.owns(o.part);
    writer program(out, c, rank, what, can);
    if (goes_up(what)) program.up();
    if (goes_down(what)) program.down();
    out.next_step();
    if (keeps) out.deliver();
    return out.finish();
}

// The blocks pass through scratch, where they stand in the composition's order.
schedule generate(const block_layout& b, collective what, int rank, std::span<const std::int64_t> begins) {
    builder out(rank, b.c.ranks, what, b.c.count, {buffer::scratch, false});
    const auto in_callers = [&](buffer where, int r) {
        return operand{where, {begins[at(r)], begins[at(r)] + b.blocks[at(r)].count()}};
    };
    const auto own = [&](buffer where) { return operand{where, {0, b.blocks[at(rank)].count()}}; };
    out.owns(b.blocks[at(rank)]);
    const capabilities none;
    writer program(out, b.c, rank, what, none);
    out.next_step();
    if (what == collective::reduce_scatter) {
        for (int r = 0; r < b.c.ranks; ++r) out.copy(b.blocks[at(r)], in_callers(buffer::send, r));
        program.up();
        out.next_step();
        out.copy(own(buffer::recv), b.blocks[at(rank)]);
    } else {
        out.copy(b.blocks[at(rank)], own(buffer::send));
        program.down();
        out.next_step();
        for (int r = 0; r < b.c.ranks; ++r) out.copy(in_callers(buffer::recv, r), b.blocks[at(r)]);
    }
    return out.finish();
}

std::vector<schedule> generate_all(const composition& c, collective what) {
    std::vector<schedule> all;
    for (int rank = 0; rank < c.ranks; ++rank) all.push_back(generate(c, what, rank));
    return all;
}

}  // namespace terrace
