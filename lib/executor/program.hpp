#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/partition.hpp"
#include "base/wire.hpp"
#include "executor/call_buffers.hpp"
#include "executor/endpoint.hpp"
#include "executor/recorder.hpp"
#include "executor/scratch_pool.hpp"
#include "executor/waits.hpp"
#include "kernels/reduce.hpp"
#include "schedule/block_steps.hpp"
#include "schedule/lane_code.hpp"
#include "schedule/lane_machine.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

/// Identity of a call and of all calls before it. Each message and stage of the call carries `history` without an extra
/// byte: as a part of the tag, and beside the sequence number in shared memory. Messages of calls that differ between
/// ranks therefore do not match: docs/reference/call-checking.md.
struct call_stamp {
    std::uint64_t number = 0;   ///< number of the call among calls that ranks compare, from 1; 0: no calls are compared
    std::uint64_t history = 0;  ///< hash over the call and all calls before
};

/// Tags of the messages of one call. A tag holds the number of the message's way, and as many bits of the call's
/// history as the network has room for.
class call_tags {
public:
    call_tags() = default;
    /// @param highest network_traits::highest_tag
    constexpr call_tags(std::uint64_t history, int highest) noexcept {
        const int bits = std::bit_width(static_cast<unsigned>(highest)) - 1;
        if (bits - own_bits < fewest_bits) return;
        without_room_ = 1 << bits;
        history_ = static_cast<int>(history & ((std::uint64_t{1} << (bits - own_bits)) - 1)) << own_bits;
    }

    /// Returns the tag for a number that is equal at both ends. Tags of numbers above 16 bits carry no history.
    constexpr int of(int number) const noexcept {
        return number >> own_bits == 0 ? history_ | number : without_room_ | number;
    }

private:
    static constexpr int own_bits = 16, fewest_bits = 4;

    int history_ = 0, without_room_ = 0;
};

/// Memory of the chunk of one lane: the caller's buffers, a slot that peers can access, and the lane's own scratch and
/// staging buffers.
class lane_memory {
public:
    /// @param scratch_bytes of the lane's own scratch   @param staging_bytes for messages that are reduced on arrival
    /// @param wire_elements of the wire buffer
    lane_memory(std::size_t element_bytes, std::size_t scratch_bytes, std::size_t staging_bytes,
                std::int64_t wire_elements) noexcept
        : element_bytes_(element_bytes),
          staging_at_(round_up(scratch_bytes, line)),
          wire_at_(staging_at_ + round_up(staging_bytes, line)),
          bytes_(wire_at_ + round_up(wire_offset(wire_elements), line)) {}

    /// Returns the bytes of the lane's own memory.
    std::size_t bytes() const noexcept { return bytes_; }
    /// Sets the lane's own memory, bytes() long and aligned to a cache line, until the next call of place().
    void place(std::byte* memory) noexcept { own_ = memory; }

    /// Begins a chunk.
    /// @param send, recv the chunk's first elements in the caller's buffers; send is only read
    /// @param slot memory that peers can access, with the first `in_slot` elements of scratch; unused if in_slot is 0
    void begin_chunk(std::byte* send, std::byte* recv, std::byte* slot, std::int64_t in_slot) noexcept {
        first_ = {send, recv, in_slot > 0 ? slot : own_, own_ + wire_at_};
        in_slot_ = in_slot;
    }

    /// Returns the address of element 0 of a buffer.
    std::byte* first(buffer where) const noexcept { return first_[static_cast<std::size_t>(where)]; }

    /// Returns the address of an operand's first element.
    std::byte* address(const operand& o) const noexcept {
        if (o.where == buffer::scratch && in_slot_ > 0 && o.part.begin >= in_slot_)
            return own_ + bytes_of(o.part.begin - in_slot_);
        if (o.where == buffer::wire) return first(buffer::wire) + wire_offset(o.part.begin);
        return first(o.where) + bytes_of(o.part.begin);
    }

    std::byte* staging() const noexcept { return own_ + staging_at_; }
    std::size_t bytes_of(std::int64_t elements) const noexcept {
        return static_cast<std::size_t>(elements) * element_bytes_;
    }

private:
    // Returns the offset of an element, with room for any wire type: no block is longer than one of a 16-bit type.
    static std::size_t wire_offset(std::int64_t element) noexcept {
        return static_cast<std::size_t>(wire_bytes(wire_type::bfloat16, round_up(element, wire_block)));
    }

    static constexpr std::size_t line = 64;

    std::size_t element_bytes_;
    std::size_t staging_at_, wire_at_, bytes_;  // the lane's own memory begins with scratch
    std::byte* own_ = nullptr;
    std::array<std::byte*, buffers> first_{};
    std::int64_t in_slot_ = 0;  // elements of scratch that lie in the slot
};

/// A lowered schedule, with properties that are derived once, when the program is made.
struct compiled_schedule {
    explicit compiled_schedule(schedule s);

    schedule code;
    lane_code order;
    /// True if is_lone_stage(): the program runs such a chunk without a lane_machine.
    bool brief = false;
    /// detail::gives_copy()
    bool gives_copy = false;
    /// detail::takes_pieces()
    bool takes_pieces = false;
    /// Operands of the longest reduction, at least 2.
    std::uint32_t most_sources = 2;
    /// True if a message is received into a staging buffer (recv_reduce).
    bool needs_staging = false;
};

/// Executable form of calls of one shape, made once and run many times. Running allocates nothing.
///
/// The chunks of a call run in lanes. A lane_machine per lane decides when each instruction is issued; the program
/// executes instructions on a transport. Programs run by polling: advance() issues instructions, and complete_request()
/// handles completions of the transport. Lanes share nothing, so they need no order among themselves.
class program {
public:
    struct shape {
        std::size_t element = 4;                    ///< bytes of one element
        reduce_kernel reduce = nullptr;             ///< combines elements
        int divisor = 1;                            ///< for elements that are reduced over all ranks
        element_type type = element_type::float32;  ///< for encoding on the wire
        slicing chunks;
        block_steps steps = {};
        int lanes = 1;
        bool placed = false;         ///< each lane occupies a lane slot of the transport, for its stages
        std::size_t slot_bytes = 0;  ///< size of a lane slot, which holds a vector with home in scratch if it fits
        bool streams = false;        ///< stage_call::streams
        int owners = 1;              ///< ranks that own each element after the way up
        bool own_lengths = false;    ///< calls have this kind of call_buffers::layout
        int counted_as = -1;         ///< call_counts::size_of; -1: calls are not counted
        std::int64_t bytes = 0;      ///< size of the vector, or of all blocks together

        chunk_order order() const noexcept { return {chunks.chunks, lanes}; }
        /// Returns true if operands in the caller's buffers lie at other places than the begin of the chunk implies.
        bool has_places() const noexcept { return own_lengths || !steps.empty(); }
    };

    /// The slot of the transport's shared memory that a lane runs in.
    struct lane_slot {
        int number = 0;
        std::uint64_t turn = 0;  ///< chunks that ran there before: equal on all ranks
    };

    /// Properties that distinguish a call from others in flight.
    struct call_context {
        std::uint64_t number = 0;   ///< number of the call, equal on all ranks
        std::uint64_t through = 0;  ///< all calls up to this number are complete
        int most_in_flight = 1;     ///< calls, whose numbers differ modulo this
        std::uint64_t history = 0;  ///< call_stamp::history of the call
        int first_request = 0;      ///< the call uses request slots first_request ... + request_slots() - 1
    };

    /// @param full, tail lowered schedules of a chunk and of the last chunk (only `tail` is used if there is one chunk)
    program(schedule full, schedule tail, const shape& s, endpoint& net);

    /// Allocates memory in lane slots, before the first start. @throws transport_error if there is none
    void take_slots();

    /// Returns the approximate size of the instructions [bytes].
    std::size_t bytes() const noexcept { return code_.full.code.bytes() + code_.tail.code.bytes(); }
    /// Returns the bytes that the program borrows for each call, for all lanes.
    std::size_t scratch_bytes() const noexcept { return scratch_.bytes; }
    /// Returns true if the program needs no scratch, or has borrowed it already.
    bool has_scratch() const noexcept { return scratch_.bytes == 0 || scratch_.borrowed.memory != nullptr; }
    /// Borrows memory for a call, before start(). Returns false if the system has none.
    /// @param more bytes for the caller, at more_memory()
    bool borrow(scratch_pool& from, std::size_t more = 0);
    std::byte* more_memory() const noexcept { return scratch_.borrowed.memory.get() + scratch_.bytes; }
    /// Gives back the borrowed memory, if any. After the call.
    void give_back(scratch_pool& to) noexcept {
        if (scratch_.borrowed.memory != nullptr) to.release(std::exchange(scratch_.borrowed, {}));
    }

    /// Returns the number of request slots that a program of `lanes` lanes uses.
    static int request_slots(int lanes) noexcept { return lanes * requests_per_lane; }

    /// Returns the number of chunks that run in a lane.
    std::int64_t chunks_of(int lane) const noexcept { return shape_.order().chunks_of(lane); }

    /// Returns the number of lanes that occupy a lane slot of the transport: all or none.
    int placed_lanes() const noexcept { return shape_.placed ? shape_.lanes : 0; }
    /// Assigns a slot to a lane, before start().
    void place_lane(int lane, lane_slot slot) noexcept { lanes_[static_cast<std::size_t>(lane)].slot = slot; }
    const lane_slot& slot_of(int lane) const noexcept { return lanes_[static_cast<std::size_t>(lane)].slot; }

    /// Returns true if the caller may pass a vector in pieces: for an allreduce that is one stage in shared memory.
    bool takes_pieces() const noexcept { return code_.tail.takes_pieces && shape_.chunks.chunks == 1; }
    /// Sets the buffers of the next call. The program must be idle.
    void set_buffers(const call_buffers& b) { buffers_.assign(b); }
    /// Begins the call. The program must be idle.
    void start(const call_context& call, recorder& events) noexcept;
    /// Issues instructions and starts lanes. Returns true if there were any, or if advance() may start more lanes.
    bool advance() noexcept;
    /// Handles the completion of one of this program's request slots.
    void complete_request(int slot) noexcept;
    bool done() const noexcept { return call_.lanes_left == 0; }
    /// Returns true while advance() has lanes to start that wait for no other rank.
    bool beginning() const noexcept {
        return starter_.pending() && lanes_[static_cast<std::size_t>(starter_.last())].machine.lets_next_begin();
    }

    /// Adds the waits of the call. @param callers_rank the caller's rank numbers, by rank of the plan
    void add_waits(const std::vector<int>& callers_rank, waiting& all) const;
    /// Returns where this rank waits for another, with preference for waits for data. Returns nothing if the rank waits
    /// for no other, or only for peers that still read memory.
    std::optional<call_counts::place> first_awaited() const;
    /// Returns the shape of the program's calls.
    const shape& made_for() const noexcept { return shape_; }

private:
    // Request slots of a lane: sends, receives, and one for a stage.
    static constexpr int stage_request = 2 * slots_each_way;
    static constexpr int requests_per_lane = stage_request + 1;

    // Free request slots of one direction, as numbers within the lane.
    class request_pool {
    public:
        explicit request_pool(int first) noexcept { std::iota(free_.begin(), free_.end(), first); }
        int acquire() noexcept { return free_[static_cast<std::size_t>(--count_)]; }
        void release(int number) noexcept { free_[static_cast<std::size_t>(count_++)] = number; }

    private:
        std::array<int, slots_each_way> free_{};
        int count_ = slots_each_way;
    };

    // Segment of a message in a request slot.
    struct request {
        std::uint32_t instruction = 0;
        std::size_t offset = 0, bytes = 0;
    };

    struct lane {
        lane(int number, const shape& s, std::size_t scratch_bytes, std::size_t staging_bytes, std::int64_t wire)
            : number(number),
              machine(s.order(), slots_each_way),
              memory(s.element, scratch_bytes, staging_bytes, wire) {}

        const instr& instruction(std::uint32_t n) const noexcept { return code->code.instrs[n]; }

        int number;
        lane_machine machine;
        lane_memory memory;
        const compiled_schedule* code = nullptr;  // schedule of the current chunk
        std::byte* rounding_errors = nullptr;     // errors of its first element; null: not recorded
        lane_slot slot;
        request_pool sends{0}, receives{slots_each_way};
        std::array<request, stage_request> requests{};
        std::uint32_t stage = 0;  // the stage that runs, if any
        stage_call running;       // the same for the transport
        bool held = false;        // the next chunk waits until peers have read the lane's slot
        bool brief = false;       // the stage of a brief chunk runs
    };
    class port;

    void begin_lane(int number) noexcept;
    int request_of(const lane& l, int number) const noexcept {
        return call_.in.first_request + l.number * requests_per_lane + number;
    }

    endpoint& net_;
    shape shape_;
    std::size_t most_segment_;  // longest segment of a message [bytes]
    // Schedules of all chunks but the last, and of the last one.
    struct {
        compiled_schedule full, tail;
    } code_;
    std::vector<lane> lanes_;
    // Size of the memory of all lanes, and the memory that is borrowed for the call in flight.
    struct {
        std::size_t bytes = 0;
        scratch_pool::block borrowed;
    } scratch_;
    std::vector<const void*> inputs_;  // sources of the current reduction
    program_buffers buffers_;
    // The call in flight.
    struct {
        call_context in;
        int number = 0;  // distinguishes the call from others in flight, in the tags of its messages
        call_tags tags;
        recorder* events = nullptr;
        int lanes_left = 0;  // that have not ended
    } call_;
    lane_starter starter_{lane_start::one_by_one};
};

}  // namespace terrace::detail
