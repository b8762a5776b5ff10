#include <algorithm>
#include <optional>

#include "base/index.hpp"
#include "schedule/block_layout.hpp"
#include "schedule/builder.hpp"
#include "schedule/tree_stages.hpp"

namespace terrace::detail {

namespace {

// Returns true for the direction in which data move only in the domains with the root, and only in mode scatter: up in
// a broadcast, down in a reduce.
bool is_at_root(collective what, bool down) { return row_of(what).has_root() && down == row_of(what).up; }

// Returns true if another member owns the root's shard. Reproducible reductions do not: they add in another order.
bool relieves_root(const composed_stage& stage, const algorithm& by, collective what, bool in_tree) {
    return row_of(what).has_root() && stage.meets_root && stage.how == mode::scatter && by.sends() && !in_tree;
}

// Writes the program of one rank, stage by stage; routes side by side.
class writer {
public:
    writer(builder& out, const composition& c, int rank, collective what, const capabilities& can)
        : out_(out), c_(c), rank_(rank), what_(what), can_(can), outermost_(c.routes.size() + 1, -1) {
        // Stages further out may have no groups.
        for (int s = 0; s < depth(); ++s)
            if (stage_at(s).largest > 0) outermost_[at(stage_at(s).route)] = s;
        while (common_ < depth() && stage_at(common_).route == 0) ++common_;
        if (!c.tree.empty() && row_of(what).up) by_tree_.emplace(out, c, rank, can);
    }

    // Returns true if roots of groups own no shards in some stage of a reduce, and so complete sums on the way down.
    bool completes_on_way_down() const {
        return what_ == collective::reduce &&
               std::ranges::any_of(c_.stages, [&](const composed_stage& s) { return relieves(s); });
    }

    void up() {
        for (int s = 0; s < common_; ++s) run_stage(s, false);
        side_by_side([&](int route) {
            for (int s = common_; s < depth(); ++s)
                if (stage_at(s).route == route) run_stage(s, false);
        });
    }
    void down() {
        side_by_side([&](int route) {
            for (int s = depth(); s-- > common_;)
                if (stage_at(s).route == route) run_stage(s, true);
        });
        for (int s = common_; s-- > 0;) run_stage(s, true);
    }

    // Moves the blocks of a domain down from the one rank that has them all, or up to it.
    void forward_blocks(bool down) {
        for (int n = 0; n < depth(); ++n) {
            const composed_stage& stage = stage_at(down ? depth() - 1 - n : n);
            if (stage.forwarding.empty()) continue;
            const int first = out_.step();
            out_.begin_phase({stage.number, down, stage.route});
            for (const int index : stage.groups_of(rank_)) {
                out_.go_to_step(first);
                out_.begin_role({});
                (down ? stage.by->scatter : stage.by->gather)(out_, stage.forwarding[at(index)].seen_by(rank_));
            }
            out_.go_to_step(first + stage.steps_at_root);
        }
    }

private:
    int depth() const { return static_cast<int>(c_.stages.size()); }
    const composed_stage& stage_at(int s) const { return c_.stages[at(s)]; }
    bool is_outermost(int s) const {
        return s == outermost_[at(stage_at(s).route)] && (stage_at(s).route > 0 || c_.routes.empty());
    }

    // Runs all routes from the same step on, and continues after the longest.
    template <class F>
    void side_by_side(F&& run) {
        const int first = out_.step();
        int last = first;
        for (int route = 1; route <= static_cast<int>(c_.routes.size()); ++route) {
            out_.go_to_step(first);
            run(route);
            last = std::max(last, out_.step());
        }
        out_.go_to_step(last);
    }

    // Emits the rank's part of a stage on the way up or down, and uses as many steps as all ranks do.
    void run_stage(int number, bool down) {
        const composed_stage& stage = stage_at(number);
        if (is_at_root(down) && stage.how != mode::scatter) return;
        const int first = out_.step();
        out_.begin_phase({stage.number, down, stage.route});
        for (const int index : stage.groups_of(rank_)) {
            const group& g = stage.groups[at(index)];
            out_.go_to_step(first);
            out_.begin_role({.outermost = is_outermost(number),
                             .by_shards = stage.how == mode::scatter,
                             .delivers = delivers(number, g, down),
                             .wire = row_of(what_).up && !row_of(what_).has_root() ? stage.wire : wire_type::exact,
                             .complete = complete_rank(what_, g),
                             .adds = addition_at_root(number, g, down)});
            if (by_tree_ && !down && !by_tree_->may_hand_over(stage, g)) {
                by_tree_->exchange(stage, g.seen_by(rank_));
                continue;
            }
            group_move moves = move_of(stage, *stage.by, what_, g, down, by_tree_.has_value());
            if (is_fused(number, g)) moves.emit = down ? nullptr : stage.by->allreduce;
            if (moves.emit != nullptr && moves.who.contains(rank_)) moves.emit(out_, moves.who.seen_by(rank_));
        }
        if (by_tree_ && !down) by_tree_->end_stage(stage);
        out_.go_to_step(first + (is_at_root(down) ? stage.steps_at_root : down ? stage.steps_down : stage.steps_up));
    }

    bool is_at_root(bool down) const { return detail::is_at_root(what_, down); }
    bool relieves(const composed_stage& stage) const {
        return relieves_root(stage, *stage.by, what_, by_tree_.has_value());
    }

    // Returns the root of the group, if it takes no part on the way up of a reduce and adds on the way down.
    std::optional<stage_role::addition> addition_at_root(int number, const group& g, bool down) const {
        if (what_ != collective::reduce || !down || g.root() == group::no_root || !relieves(stage_at(number)))
            return {};
        return stage_role::addition{g.rank(g.root()), is_last_to_add(number)};
    }
    // Returns true if no stage further in adds to the data of this stage on the way down.
    bool is_last_to_add(int number) const {
        for (int s = 0; s < number; ++s)
            if (relieves(stage_at(s)) && (stage_at(s).route == 0 || stage_at(s).route == stage_at(number).route))
                return false;
        return true;
    }

    // Returns true if the transport runs both directions of a stage as one allreduce. Only an outermost stage gathers
    // directly after it has scattered.
    bool is_fused(int number, const group& g) {
        const composed_stage& stage = c_.stages[at(number)];
        return what_ == collective::allreduce && is_outermost(number) && follows_buffers(stage.by->provider) &&
               stage.how == mode::scatter && can_.runs(action::stage_allreduce, g) &&
               (!by_tree_ || by_tree_->may_hand_over(stage, g));
    }

    // Returns true if the result goes straight to recv. A vector of blocks has another order than the caller's.
    bool delivers(int number, const group& g, bool down) {
        if (row_of(what_).blocks || number > 0) return false;
        const mode how = c_.stages[at(number)].how;
        const bool comes_down =
            row_of(what_).down ? how != mode::replicate : row_of(what_).has_root() && how == mode::scatter;
        return down || is_fused(number, g) || (depth() == 1 && !comes_down);
    }

    builder& out_;
    const composition& c_;
    int rank_;
    collective what_;
    const capabilities& can_;
    std::vector<int> outermost_;  // outermost stage, by route
    int common_ = 0;              // stages of all routes
    std::optional<tree_stages> by_tree_;
};

}  // namespace

// In a broadcast the root scatters all its data and takes no part on the way down. In a reduce it takes no part on the
// way up, and in the end adds the others' sums to its own vector.
group_move move_of(const composed_stage& stage, const algorithm& by, collective what, const group& g, bool down,
                   bool in_tree) {
    const bool at_root = is_at_root(what, down), has_root = g.root() != group::no_root;
    if (at_root && (stage.how != mode::scatter || !has_root)) return {nullptr, g};
    const algorithm::generator emit = !at_root ? (down ? by.down(stage.how) : by.up(stage.how))
                                      : down   ? by.gather
                                               : by.scatter;
    if (!has_root || !relieves_root(stage, by, what, in_tree)) return {emit, g};
    return {emit, at_root ? g.with_root_relieved() : g.without_root(), at_root && down};
}

bool runs_stages(const composition& c, int rank, const capabilities& can) {
    return std::any_of(c.stages.begin(), c.stages.end(), [&](const composed_stage& s) {
        const std::vector<int>& mine = s.groups_of(rank);
        return follows_buffers(s.by->provider) && std::any_of(mine.begin(), mine.end(), [&](int g) {
                   return can.runs(action::stage_allreduce, s.groups[at(g)]);
               });
    });
}

schedule generate(const composition& c, collective what, int rank, const capabilities& can, buffer home) {
    // Ranks that only forward sums to a root have no recv, so they keep the sums in scratch.
    const bool keeps = what != collective::reduce || rank == c.root;
    builder out(rank, c.ranks, what, c.count, {keeps ? home : buffer::scratch, true});
    writer program(out, c, rank, what, can);
    for (const owned& o : c.owners)
        if (contains(o.owners, rank) && !program.completes_on_way_down()) out.owns(o.part);
    if (row_of(what).up || row_of(what).has_root()) program.up();
    if (row_of(what).down || row_of(what).has_root()) program.down();
    out.next_step();
    if (keeps) out.deliver();
    return out.finish();
}

// The blocks pass through scratch, in the composition's order.
schedule generate(const block_layout& b, collective what, int rank, std::span<const std::int64_t> begins) {
    builder out(rank, b.c.ranks, what, b.c.count, {buffer::scratch, false});
    // Calls f(part of the vector, operand in `where`) for each part of a block, which begins there at `begin`.
    const auto for_each_part = [&](int r, buffer where, std::int64_t begin, auto&& f) {
        for (const range part : b.block_of(r)) {
            f(part, operand{where, {begin, begin + part.count()}});
            begin += part.count();
        }
    };
    for (const range part : b.held_by(rank)) out.owns(part);
    const capabilities none;
    writer program(out, b.c, rank, what, none);
    out.next_step();
    if (what == collective::reduce_scatter) {
        for (int r = 0; r < b.c.ranks; ++r)
            for_each_part(r, buffer::send, begins[at(r)], [&](range part, operand given) { out.copy(part, given); });
        program.up();
        program.forward_blocks(true);
        out.next_step();
        for_each_part(rank, buffer::recv, 0, [&](range part, operand due) { out.copy(due, part); });
    } else {
        for_each_part(rank, buffer::send, 0, [&](range part, operand given) { out.copy(part, given); });
        program.forward_blocks(false);
        program.down();
        out.next_step();
        for (int r = 0; r < b.c.ranks; ++r)
            for_each_part(r, buffer::recv, begins[at(r)], [&](range part, operand due) { out.copy(due, part); });
    }
    return out.finish();
}

std::vector<schedule> generate_all(const composition& c, collective what) {
    std::vector<schedule> all;
    for (int rank = 0; rank < c.ranks; ++rank) all.push_back(generate(c, what, rank));
    return all;
}

}  // namespace terrace::detail
