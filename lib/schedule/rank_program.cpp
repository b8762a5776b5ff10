#include <algorithm>

#include "schedule/builder.hpp"
#include "schedule/compose.hpp"

namespace terrace {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Writes the program of one rank, stage by stage.
class writer {
public:
    writer(builder& out, const composition& c, int rank, collective what, const capabilities& can)
        : out_(out), c_(c), rank_(rank), what_(what), can_(can) {
        // Further out there may be stages of one member each, in which nothing happens.
        for (int s = 0; s < depth(); ++s)
            if (c_.stages[at(s)].largest > 0) outermost_ = s;
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
        for (int index : stage.cohorts_of(rank_)) {
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

bool runs_natively(const composition& c, int rank, const capabilities& can) {
    return std::any_of(c.stages.begin(), c.stages.end(), [&](const composed_stage& s) {
        const std::vector<int>& mine = s.cohorts_of(rank);
        return s.by->native && std::any_of(mine.begin(), mine.end(), [&](int k) {
                   return can.runs(action::stage_allreduce, s.cohorts[at(k)].members, s.cohorts[at(k)].shards);
               });
    });
}

schedule generate(const composition& c, collective what, int rank, const capabilities& can, buffer home) {
    // Ranks that only pass partial sums on to a root have nowhere but scratch to keep them.
    const auto is_own = [&](const owned& o) { return std::find(o.owners.begin(), o.owners.end(), rank) != o.owners.end(); };
    const bool keeps = what != collective::reduce || c.count == 0 || std::any_of(c.owners.begin(), c.owners.end(), is_own);
    builder out(rank, c.ranks, what, c.count, {keeps ? home : buffer::scratch, true});
    for (const owned& o : c.owners)
        if (is_own(o)) out.owns(o.part);
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
