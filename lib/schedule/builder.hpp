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
    bool outermost = false;             ///< no stage is further out: what it reduces is reduced over all ranks
    bool by_shards = false;             ///< each member reduces its own shard, in an allreduce as well
    bool delivers = false;              ///< what members get is the result of the call: nothing more is done to it
    wire_type wire = wire_type::exact;  ///< of messages. On the way down a rank keeps what it sends as others get it.
    std::optional<int> complete = {};   ///< rank that has all that the stage moves: nobody sends to it

    /// A rank that adds what it gets to what it has.
    struct addition {
        int rank;
        bool completes;  ///< the sums are then over all ranks
    };
    std::optional<addition> adds = {};
};

/// Returns stage_role::complete of a group: in a broadcast its root, whose part of the vector is complete from the
/// start.
std::optional<int> complete_rank(collective what, const group& g) noexcept;

/// Writes the program of one rank. Generators say what moves in which step; the builder orders instructions whose
/// operands overlap when one of them writes, leaves empty messages out, and reads the caller's buffer until something
/// is written. A range as an operand means that part of the vector.
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

    /// Messages from here on belong to the next step. Instructions of one step must not depend on one another's
    /// messages.
    void next_step() noexcept { ++step_; }
    /// Calls f(0) ... f(count - 1), each in a step of its own, in which a rank moves shards from and to the same peers.
    /// A builder that counts equal shards calls f(0) alone, for all of these steps.
    template <class F>
    void for_steps_alike(int count, F&& f) {
        const int written = folds_ ? std::min(count, 1) : count;
        times_ = folds_ ? count : 1;
        for (int step = 0; step < written; ++step) next_step(), f(step);
        step_ += count - written;
        times_ = 1;
    }
    int step() const noexcept { return step_; }
    /// Stages that run side by side begin at the same step.
    void go_to_step(int step) noexcept { step_ = step; }
    /// Instructions from here on are of this phase, again where it has begun before.
    void begin_phase(phase p);
    /// Stages that are handed over from here on have this role.
    void begin_role(stage_role r) noexcept {
        role_ = r;
        encoded_.clear();
    }

    void send(int peer, place src);
    void recv(int peer, place dst);
    /// vector[part] = vector[part] + what arrives
    void recv_reduce(int peer, range part) {
        if (part.empty()) return;
        instr& i = emit(action::recv_reduce, peer);
        i.dst = i.src = at(part);
    }
    void copy(place dst, place src);
    /// dst = sum of the sources in the order given
    void reduce(place dst, std::span<const place> sources);
    void reduce(place dst, std::initializer_list<place> sources) {
        reduce(dst, std::span<const place>(sources.begin(), sources.size()));
    }
    /// Says that the last instruction, a reduction, completes a sum that another rank is to own.
    void completes_for_another() noexcept { out_.instrs.back().completes = true; }
    /// Hands a stage of a group over to a provider. If the stage delivers, its result goes straight to recv.
    void hand_over(provider by, action stage, const group& g);
    /// Copies to recv what is not there yet of a vector that is at home in scratch.
    void deliver();
    /// Fresh scratch, one element after the other.
    operand scratch(std::int64_t count) {
        const range part{out_.scratch, out_.scratch + count};
        out_.scratch = part.end;
        return {buffer::scratch, part};
    }
    /// Fresh memory of the wire buffer.
    operand wire(std::int64_t count) {
        const range part{out_.wire, out_.wire + count};
        out_.wire = round_up(part.end, wire_block);
        return {buffer::wire, part};
    }
    /// Says that after the way up this part of the vector is reduced over all ranks here.
    void owns(range part) {
        // Joins neighbouring parts: one reduction may complete both. So it is where routes end in different parts and
        // their stages join nothing, since each of these dimensions has one node.
        if (!out_.owned.empty() && out_.owned.back().end == part.begin) out_.owned.back().end = part.end;
        else out_.owned.push_back(part);
    }
    /// Re-emits an instruction of a finished schedule at the current step.
    void repeat(const schedule& from, const instr& i);

    /// Begins a program that is counted and not run, of another rank. @param shards_equal all steps alike are one
    void begin_counted(int rank, bool shards_equal) noexcept;
    /// Returns what has been written of it, and in how many steps an instruction stands.
    std::span<const instr> counted() const noexcept { return out_.instrs; }
    int times_of(std::size_t instruction) const noexcept { return times_of_[instruction]; }

    /// The finished schedule. A vector at home in recv that starts in send is all in recv at the end, also what no
    /// message touched. The builder is then empty.
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
    int turn_ = 0;  // of the phase, those of all routes counted as one
    stage_role role_;
    bool counts_ = false, folds_ = false;
    int times_ = 1;                                     // of instructions from here on
    std::vector<int> times_of_;                         // of those written, where a program is counted
    std::vector<std::pair<operand, operand>> encoded_;  // in this role: what, and where it lies in the wire buffer
};

}  // namespace terrace::detail
