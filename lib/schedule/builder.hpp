#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/partition.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// The role of a group's stage in the whole call.
struct stage_role {
    bool outermost = false;             ///< no stage is further out: its sums are over all ranks
    bool by_shards = false;             ///< each member reduces its own shard, in an allreduce too
    bool delivers = false;              ///< the data that members get are the final result of the call
    wire_type wire = wire_type::exact;  ///< type of messages; on the way down a rank rounds its own copy like the sent
                                        ///< one
    std::optional<int> complete = {};   ///< rank that has all data of the stage from the start: no peer sends to it

    /// A rank that adds received data to its own.
    struct addition {
        int rank;
        bool completes;  ///< the sums are then over all ranks
    };
    std::optional<addition> adds = {};
};

/// Returns stage_role::complete of a group: in a broadcast its root, whose part of the vector is complete from the
/// start.
std::optional<int> complete_rank(collective what, const group& g) noexcept;

/// Writes the program of one rank. Generators emit the messages of each step. The builder orders instructions whose
/// operands overlap if one of them writes, leaves out empty messages, and reads elements from the caller's buffer until
/// they are written. A range as an operand means that part of the vector.
class builder {
public:
    struct place {
        place(range r) : part(r) {}  // NOLINT: a range is a place in the vector
        place(operand o) : part(o.part), where(o.where), in_vector(false) {}  // NOLINT
        range part;
        buffer where = buffer::recv;
        bool in_vector = true;
    };

    builder(int rank, int ranks, collective what, std::int64_t count, vector_home home = {});

    /// Begins the next step. Instructions of one step must not depend on one another's messages.
    void next_step() noexcept { ++step_; }
    /// Calls f(0) ... f(count - 1), each in a step of its own. In these steps a rank moves shards to and from the same
    /// peers. A builder that counts a program with equal shards calls only f(0), and counts it for all steps.
    template <class F>
    void for_steps_alike(int count, F&& f) {
        const int written = folds_ ? std::min(count, 1) : count;
        times_ = folds_ ? count : 1;
        for (int step = 0; step < written; ++step) next_step(), f(step);
        step_ += count - written;
        times_ = 1;
    }
    int step() const noexcept { return step_; }
    /// Continues at a step. Stages that run side by side begin at the same step.
    void go_to_step(int step) noexcept { step_ = step; }
    /// Begins a phase: the next instructions belong to it. A phase of a route may begin again.
    void begin_phase(phase p);
    /// Sets the role of the group whose instructions follow.
    void begin_role(stage_role r) noexcept {
        role_ = r;
        encoded_.clear();
    }

    void send(int peer, place src);
    void recv(int peer, place dst);
    /// Receives and adds: vector[part] = vector[part] + message.
    void recv_reduce(int peer, range part) {
        if (part.empty()) return;
        instr& i = emit(action::recv_reduce, peer);
        i.dst = i.src = at(part);
    }
    void copy(place dst, place src);
    /// Emits dst = sum of the sources, in the order given.
    void reduce(place dst, std::span<const place> sources);
    void reduce(place dst, std::initializer_list<place> sources) {
        reduce(dst, std::span<const place>(sources.begin(), sources.size()));
    }
    /// Marks the last instruction, a reduction: it completes a sum that another rank is to own.
    void completes_for_another() noexcept { out_.instrs.back().completes = true; }
    /// Emits a stage of a group as a provider's own collective. If it delivers, its result goes straight to recv.
    void run_by_provider(provider by, action stage, const group& g);
    /// Copies the elements that are not in recv yet, if the vector's home is scratch.
    void deliver();
    /// Returns unused scratch memory for consecutive elements.
    operand scratch(std::int64_t count) {
        const range part{out_.scratch, out_.scratch + count};
        out_.scratch = part.end;
        return {buffer::scratch, part};
    }
    /// Returns unused memory of the wire buffer.
    operand wire(std::int64_t count) {
        const range part{out_.wire, out_.wire + count};
        out_.wire = round_up(part.end, wire_block);
        return {buffer::wire, part};
    }
    /// Records that this rank has this part of the vector after the way up, reduced over all ranks.
    void owns(range part) {
        // Joins neighbouring parts, since one reduction may complete both. This occurs if all dimensions of the routes
        // have one node: their stages then combine nothing.
        if (!out_.owned.empty() && out_.owned.back().end == part.begin) out_.owned.back().end = part.end;
        else out_.owned.push_back(part);
    }
    /// Re-emits an instruction of a finished schedule at the current step.
    void repeat(const schedule& from, const instr& i);

    /// Begins another rank's program, to be counted and not run. @param shards_equal emits equal steps once
    void begin_counted(int rank, bool shards_equal) noexcept;
    /// Return the instructions of the counted program, and the number of steps that one of them counts for.
    std::span<const instr> counted() const noexcept { return out_.instrs; }
    int times_of(std::size_t instruction) const noexcept { return times_of_[instruction]; }

    /// Returns the finished schedule and empties the builder. If the vector starts in send and its home is recv, it
    /// ends complete in recv, with the elements that no message touched.
    schedule finish();

private:
    instr& emit(action what, int peer);
    void add_sources(instr& i, std::span<const place> sources) {
        i.first_source = static_cast<std::uint32_t>(out_.sources.size());
        i.sources = static_cast<std::uint32_t>(sources.size());
        for (const place& p : sources) out_.sources.push_back(at(p));
    }
    operand at(const place& p) const noexcept { return {p.in_vector ? out_.home.where : p.where, p.part}; }
    operand encoded(const operand& plain);
    bool in_vector(const operand& o) const noexcept {
        return o.where == out_.home.where && (o.where == buffer::recv || o.part.end <= out_.count);
    }
    void read_caller_until_written();
    void mark_completions();
    void infer_order();
    void number_channels();
    void measure_buffers();

    schedule out_;
    int step_ = 0;
    std::size_t phase_ = 0;
    int turn_ = 0;  // number of the phase; successive phases of routes count as one
    stage_role role_;
    bool counts_ = false, folds_ = false;
    int times_ = 1;                                     // steps that the next instructions count for
    std::vector<int> times_of_;                         // the same by instruction, while a program is counted
    std::vector<std::pair<operand, operand>> encoded_;  // in this role: source, and its place in the wire buffer
};

}  // namespace terrace::detail
