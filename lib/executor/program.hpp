#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <terrace/types.hpp>

#include "base/wire.hpp"
#include "executor/recorder.hpp"
#include "executor/transport.hpp"
#include "kernels/reduce.hpp"
#include "schedule/schedule.hpp"
#include "schedule/slice.hpp"

namespace terrace {

/// A schedule in the form the executor walks: what it issues by itself, apart from what runs when its inputs are there.
struct compiled {
    explicit compiled(schedule s);

    schedule code;
    std::vector<std::uint32_t> waits;  ///< by instruction: how many others it still waits for at the start
    std::vector<std::uint32_t> sends, recvs, stages, locals;  ///< in program order
    std::vector<bool> follows;                                ///< by instruction: follow_ups
    bool brief = false;       ///< one stage of the transport, which no message comes before and nothing follows
    bool gives_copy = false;  ///< what a stage without sources gives is a copy of all that the caller passed in
};

/// One call's shape with everything it needs to run: made once, run many times. Running it allocates nothing.
///
/// A chunk's instructions run in a lane: chunk k in lane k mod lanes, one after the other. Within a lane sends take the
/// lane's send slots in program order, and receives its receive slots; each kind has slots of its own, so neither can
/// starve the other, and the verifier's proof for one slot of each holds for any number. The first send of a step that
/// passes on what came to other ranks waits for those before it (follow_ups). Stages of the transport run
/// one at a time, in program order. Lanes share nothing: they need no order among themselves.
class program {
public:
    struct shape {
        std::size_t element = 4;  ///< bytes of one element
        reduce_kernel reduce = nullptr;
        int divisor = 1;  ///< of what has been reduced over all ranks
        slicing chunks;
        int lanes = 1;
        bool placed = false;   ///< each lane takes a slot of the transport, for its stages
        bool in_slot = false;  ///< a vector at home in scratch lies in the lane's slot of the transport
        bool streams = false;  ///< stage_call::streams
    };

    /// Which slot of the transport a lane runs in.
    struct place {
        int slot = 0;
        std::uint64_t turn = 0;  ///< chunks that ran there before
    };

    /// What tells one run from others in flight.
    struct run {
        std::uint64_t call = 0;     ///< its number, the same on all ranks
        std::uint64_t through = 0;  ///< calls up to this number are complete
        int window = 1;             ///< calls that may be in flight at once
        int first_slot = 0;         ///< it uses first_slot ... first_slot + slots() - 1 of the transport
    };

    /// @param full, tail lowered schedules of a chunk and of the last chunk (only `tail` is used if there is one chunk)
    program(schedule full, schedule tail, const shape& s, transport& net);

    /// Slots a program with so many lanes uses.
    static int slots(int lanes) noexcept { return lanes * slots_per_lane; }

    int lanes() const noexcept { return shape_.lanes; }
    /// Chunks that run in a lane.
    std::int64_t chunks_of(int lane) const noexcept;

    /// Lanes that take a slot of the transport: all or none.
    int placed_lanes() const noexcept { return shape_.placed ? shape_.lanes : 0; }
    /// Where such a lane is to run. Before start.
    void place_lane(int lane, place at) noexcept { lanes_[static_cast<std::size_t>(lane)].at = at; }
    place lane_place(int lane) const noexcept { return lanes_[static_cast<std::size_t>(lane)].at; }

    /// Begins a call. `send` and `recv` may be the same. The program must be idle.
    void start(const void* send, void* recv, const run& as, recorder& events) noexcept;
    /// Issues what can be issued. True if anything was.
    bool advance() noexcept;
    /// A slot of this program has completed.
    void complete_slot(int slot) noexcept;
    bool done() const noexcept { return lanes_left_ == 0; }
    /// Whether there are lanes that advance() has still to begin. It needs nobody else for that.
    bool beginning() const noexcept { return lanes_begun_ < lanes_used(); }

    /// An instruction that has begun and waits for another rank.
    struct wait {
        int stage = 0;
        bool down = false;
        int step = 0;
        std::int64_t chunk = 0;
        std::string_view what;  ///< the action
        int peer = 0;           ///< rank
    };
    std::vector<wait> waits() const;

private:
    static constexpr int stage_slot = 2 * slots_each_way;
    static constexpr int slots_per_lane = stage_slot + 1;

    // Walks the segments of messages in program order.
    struct cursor {
        std::size_t message = 0;  // index into compiled::sends or recvs
        std::size_t offset = 0;   // bytes of it already issued
        std::vector<int> free;    // slots
    };

    struct lane {
        const compiled* code = nullptr;
        std::int64_t chunk = 0;
        std::byte* base[2] = {};              // of send and recv: the chunk's
        std::vector<std::uint32_t> waits;     // by instruction
        std::vector<std::uint32_t> segments;  // by instruction: segments not yet completed
        std::vector<std::uint32_t> ready;     // stack of local instructions that can run
        std::size_t left = 0;                 // instructions not yet completed
        cursor sends, recvs;
        place at;
        std::size_t stage = 0;  // index into compiled::stages: the next to begin, or the one that runs
        stage_call running;     // if stage_runs
        bool stage_runs = false;
        bool held = false;  // until the lane's slot may be written
    };

    struct slot {
        std::uint32_t instruction = 0;
        std::size_t offset = 0, bytes = 0;  // of the message
    };

    int lanes_used() const noexcept {
        return static_cast<int>(std::min<std::int64_t>(shape_.lanes, shape_.chunks.chunks));
    }
    void begin_lane() noexcept;
    void begin_next_lane(bool busy) noexcept;
    void start_chunk(lane& l, std::int64_t chunk) noexcept;
    bool release(lane& l) noexcept;
    bool issue(lane& l, bool receiving) noexcept;
    bool begin_stage(lane& l) noexcept;
    void run_briefly(lane& l) noexcept;
    void run_stage(lane& l) noexcept;
    void complete(lane& l, std::uint32_t instruction) noexcept;
    void settle(lane& l, std::uint32_t instruction) noexcept;
    void run_ready(lane& l) noexcept;
    void run_local(lane& l, const instr& i) noexcept;
    void note(const lane& l, std::uint32_t instruction, bool ends) noexcept;
    std::int64_t elements_in_slot(const schedule& s) const noexcept;
    std::byte* base_of(const lane& l, buffer where) const noexcept;
    std::byte* address(const lane& l, const operand& o) const noexcept;
    std::byte* own_scratch(const lane& l) const noexcept {
        return scratch_.get() + scratch_bytes_ * static_cast<std::size_t>(lane_index(l));
    }
    std::size_t segment_of(std::size_t bytes) const noexcept;
    int divisor_of(const instr& i) const noexcept { return i.completes ? shape_.divisor : 1; }
    int lane_index(const lane& l) const noexcept { return static_cast<int>(&l - lanes_.data()); }
    // Of the program's own slots, from 0.
    static int slot_number(int lane, int i) noexcept { return lane * slots_per_lane + i; }
    std::byte* staging(const lane& l, int slot) noexcept {
        const int number = slot - slot_number(lane_index(l), slots_each_way) + lane_index(l) * slots_each_way;
        return staging_.get() + static_cast<std::size_t>(number) * segment_;
    }

    transport& net_;
    shape shape_;
    run run_;
    recorder* events_ = nullptr;
    std::size_t segment_;
    compiled full_, tail_;
    std::vector<lane> lanes_;
    std::vector<slot> slots_;
    std::vector<const void*> inputs_;       // of the reduction that runs
    std::unique_ptr<std::byte[]> scratch_;  // lanes x scratch of a chunk that is not in the transport's slots
    std::size_t scratch_bytes_ = 0;         // of one lane
    std::unique_ptr<std::byte[]> staging_;  // a segment per receive slot, for recv_reduce
    std::byte* send_ = nullptr;             // the caller's buffers; send_ is only read
    std::byte* recv_ = nullptr;
    int lanes_begun_ = 0;
    int lanes_left_ = 0;     // to end
    bool gave_way_ = false;  // to others on this core, since a lane began
};

}  // namespace terrace
