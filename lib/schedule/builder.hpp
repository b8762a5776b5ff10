#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace terrace {

/// The ranks that run one algorithm together, as one of them sees it, and how the vector is divided among them.
struct group {
    std::span<const int> members;   ///< ranks by position
    std::span<const range> shards;  ///< consecutive; shards[i] belongs to position i; may be empty
    range whole;                    ///< all shards together
    int position = 0;               ///< this rank's
    int root = 0;                   ///< the position that ends up with (or starts from) everything in root mode
    int ordinal = 0;                ///< tells apart the groups that a rank belongs to in one stage
    bool outermost = false;         ///< of all stages: what it reduces is complete
    bool sharded = false;           ///< each rank reduces its shard, in an allreduce as well
    bool delivers = false;          ///< what the group's ranks get is the result: nothing more is done to it

    int size() const noexcept { return static_cast<int>(members.size()); }
    /// Any integer names a position, counted around the group.
    int wrapped(int position) const noexcept;
    int rank(int position) const noexcept { return members[static_cast<std::size_t>(wrapped(position))]; }
    range shard(int position) const noexcept { return shards[static_cast<std::size_t>(wrapped(position))]; }
    /// The shards of `n` <= size() successive positions: at most two ranges, the second one beyond the group's end.
    std::array<range, 2> shards_from(int position, int n) const noexcept;
    int next() const noexcept { return rank(this->position + 1); }
    int prev() const noexcept { return rank(this->position - 1); }
};

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
    int step() const noexcept { return step_; }
    /// Stages that run side by side begin at the same step.
    void go_to_step(int step) noexcept { step_ = step; }
    /// Instructions from here on are of this phase, again where it has begun before.
    void begin_phase(phase p);

    void send(int peer, place src);
    void recv(int peer, place dst);
    /// vector[part] = vector[part] + what arrives
    void recv_reduce(int peer, range part);
    void copy(place dst, place src);
    /// dst = sum of the sources in the order given
    void reduce(place dst, std::span<const place> sources);
    void reduce(place dst, std::initializer_list<place> sources) {
        reduce(dst, std::span<const place>(sources.begin(), sources.size()));
    }
    /// Hands a stage over `g` to the transport. Where the group delivers, the result goes straight to recv.
    void native(action stage, const group& g);
    /// Hands it to the network's library.
    void library(action stage, const group& g);
    /// Copies to recv what is not there yet of a vector that is at home in scratch.
    void deliver();
    /// Fresh scratch, one element after the other.
    operand scratch(std::int64_t count);
    /// After the way up, this part of the vector is reduced over all ranks here.
    void owns(range part) { out_.owned.push_back(part); }
    /// Re-emits an instruction of a finished schedule at the current step.
    void repeat(const schedule& from, const instr& i);

    /// The finished schedule. A vector at home in recv that starts in send is all in recv at the end, also what no
    /// message touched. The builder is then empty.
    schedule finish();

private:
    instr& emit(action what, int peer);
    void hand_over(action stage, const group& g, bool library);
    void add_sources(instr& i, std::span<const place> sources);
    operand at(const place& p) const noexcept;
    bool in_vector(const operand& o) const noexcept;
    void order_by_step();
    void read_caller_until_written();
    instr fill(const instr& before, range missing) const;
    void mark_completions();
    void infer_order();
    void number_channels();
    void measure_buffers();

    schedule out_;
    int step_ = 0;
    std::size_t phase_ = 0;
    int turn_ = 0;  // of the phase, those of all routes counted as one
};

}  // namespace terrace
