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

/// Which calls a rank has made up to one. All of its messages and stages carry `history`, at no extra byte: as a part
/// of their tags, and beside the sequence numbers of shared memory. So those of calls that differ between ranks do not
/// meet: docs/reference/call-checking.md.
struct call_stamp {
    std::uint64_t number = 0;   ///< of the call, of those that ranks compare, from 1; 0: they compare none
    std::uint64_t history = 0;  ///< hash over it and all calls before it
};

/// The tags of the messages of one call: its own number for each way, and as much of the call's history as the network
/// has room for.
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

    /// Returns the tag for a number that is equal at both ends. Numbers that leave no room for a history have none.
    constexpr int of(int number) const noexcept {
        return number >> own_bits == 0 ? history_ | number : without_room_ | number;
    }

private:
    static constexpr int own_bits = 16, fewest_bits = 4;

    int history_ = 0, without_room_ = 0;
};

/// The memory that one lane's chunk uses: the caller's buffers, a slot of memory that peers reach, and scratch and
/// staging buffers of the lane's own.
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
    /// Gives it so much memory, on a cache line, until it gets other.
    void place(std::byte* memory) noexcept { own_ = memory; }

    /// Begins a chunk.
    /// @param send, recv the chunk's first elements in the caller's buffers; send is only read
    /// @param slot memory that peers reach, with the first `in_slot` elements of scratch; unused if in_slot is 0
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
    // Room for any wire type: blocks of none are longer than those of 16-bit types.
    static std::size_t wire_offset(std::int64_t element) noexcept {
        return static_cast<std::size_t>(wire_bytes(wire_type::bfloat16, round_up(element, wire_block)));
    }

    static constexpr std::size_t line = 64;

    std::size_t element_bytes_;
    std::size_t staging_at_, wire_at_, bytes_;  // of the lane's own memory, which begins with scratch
    std::byte* own_ = nullptr;
    std::array<std::byte*, buffers> first_{};
    std::int64_t in_slot_ = 0;  // elements of scratch that lie in the slot
};

/// A lowered schedule, and what a program derives from it when it is made.
struct compiled_schedule {
    explicit compiled_schedule(schedule s);

    schedule code;
    lane_code order;
    /// is_lone_stage(): a program runs such a chunk without a lane_machine.
    bool brief = false;
    /// detail::gives_copy()
    bool gives_copy = false;
    /// detail::takes_pieces()
    bool takes_pieces = false;
    /// Operands of the longest reduction, at least 2.
    std::uint32_t most_sources = 2;
    /// Some message is received into a staging buffer (recv_reduce).
    bool needs_staging = false;
};

/// One call's shape with everything it needs to run: made once, run many times. Running it allocates nothing.
///
/// The chunks of a call run in lanes. A lane_machine per lane decides what is issued when; the program carries it out
/// on a transport. It polls: advance() issues what can be issued, and complete_request() reports what the transport has
/// completed. Lanes share nothing, so they need no order among themselves.
class program {
public:
    struct shape {
        std::size_t element = 4;                    ///< bytes of one element
        reduce_kernel reduce = nullptr;             ///< adds up elements
        int divisor = 1;                            ///< of what has been reduced over all ranks
        element_type type = element_type::float32;  ///< of what is converted for the wire
        slicing chunks;
        block_steps steps = {};
        int lanes = 1;
        bool placed = false;         ///< each lane occupies a lane slot of the transport, for its stages
        std::size_t slot_bytes = 0;  ///< of a lane slot, where a vector at home in scratch lies if it fits
        bool streams = false;        ///< stage_call::streams
        int owners = 1;              ///< ranks that own each element after the way up
        bool own_lengths = false;    ///< calls have call_buffers::layout of this kind
        int counted_as = -1;         ///< call_counts::size_of; -1: calls are not counted
        std::int64_t bytes = 0;      ///< of the vector, or of all blocks together

        chunk_order order() const noexcept { return {chunks.chunks, lanes}; }
        /// True if operands in the caller's buffers lie elsewhere than the chunk's begin says.
        bool has_places() const noexcept { return own_lengths || !steps.empty(); }
    };

    /// The slot of the transport's shared memory that a lane runs in.
    struct lane_slot {
        int number = 0;
        std::uint64_t turn = 0;  ///< chunks that ran there before: equal on all ranks
    };

    /// Distinguishes a call from others in flight.
    struct call_context {
        std::uint64_t number = 0;   ///< of the call, equal on all ranks
        std::uint64_t through = 0;  ///< all calls up to this number are complete
        int most_in_flight = 1;     ///< calls, of different numbers modulo this
        std::uint64_t history = 0;  ///< call_stamp::history of the call
        int first_request = 0;      ///< the call uses request slots first_request ... + request_slots() - 1
    };

    /// @param full, tail lowered schedules of a chunk and of the last chunk (only `tail` is used if there is one chunk)
    program(schedule full, schedule tail, const shape& s, endpoint& net);

    /// Takes memory in lane slots, before the first start. @throws transport_error if there is none
    void take_slots();

    /// Returns about how many bytes its instructions take.
    std::size_t bytes() const noexcept { return code_.full.code.bytes() + code_.tail.code.bytes(); }
    /// Returns the bytes that it borrows for each call, for all lanes.
    std::size_t scratch_bytes() const noexcept { return scratch_.bytes; }
    /// True if it has what it needs to start: either it needs nothing, or it has borrowed that already.
    bool has_scratch() const noexcept { return scratch_.bytes == 0 || scratch_.borrowed.memory != nullptr; }
    /// Borrows memory for a call, before start(). Returns false where the system gives none.
    /// @param more bytes for the caller, at more_memory()
    bool borrow(scratch_pool& from, std::size_t more = 0);
    std::byte* more_memory() const noexcept { return scratch_.borrowed.memory.get() + scratch_.bytes; }
    /// Gives back what it has borrowed, if anything. After the call.
    void give_back(scratch_pool& to) noexcept {
        if (scratch_.borrowed.memory != nullptr) to.release(std::exchange(scratch_.borrowed, {}));
    }

    /// Returns the number of the transport's request slots that a program of so many lanes uses.
    static int request_slots(int lanes) noexcept { return lanes * requests_per_lane; }

    /// Returns the number of chunks that run in a lane.
    std::int64_t chunks_of(int lane) const noexcept { return shape_.order().chunks_of(lane); }

    /// Returns the number of lanes that occupy a lane slot of the transport: all or none.
    int placed_lanes() const noexcept { return shape_.placed ? shape_.lanes : 0; }
    /// Gives a lane its slot. Before start().
    void place_lane(int lane, lane_slot slot) noexcept { lanes_[static_cast<std::size_t>(lane)].slot = slot; }
    const lane_slot& slot_of(int lane) const noexcept { return lanes_[static_cast<std::size_t>(lane)].slot; }

    /// Whether the caller's vector may stand in several places: of an allreduce that is one stage in shared memory.
    bool takes_pieces() const noexcept { return code_.tail.takes_pieces && shape_.chunks.chunks == 1; }
    /// Takes the buffers of the next call. The program must be idle.
    void set_buffers(const call_buffers& b) { buffers_.assign(b); }
    /// Begins the call. The program must be idle.
    void start(const call_context& call, recorder& events) noexcept;
    /// Issues what can be issued. Returns true if anything was.
    bool advance() noexcept;
    /// Follows the completion of one of this program's request slots.
    void complete_request(int slot) noexcept;
    bool done() const noexcept { return call_.lanes_left == 0; }
    /// Returns true while advance() has still lanes to begin that need no other rank for that.
    bool beginning() const noexcept {
        return starter_.pending() && lanes_[static_cast<std::size_t>(starter_.last())].machine.lets_next_begin();
    }

    /// Adds what the call waits for. @param callers_rank the caller's numbering by rank of the plan
    void add_waits(const std::vector<int>& callers_rank, waiting& all) const;
    /// Returns where this rank waits for another one, first of all for data; nothing if it waits for none, or for
    /// memory that is still read.
    std::optional<call_counts::place> first_awaited() const;
    /// Returns what the program was made for.
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

    // The segment of a message that a request slot carries.
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
        const compiled_schedule* code = nullptr;  // of the chunk that runs
        std::byte* rounding_errors = nullptr;     // of its first element; null: nobody asks
        lane_slot slot;
        request_pool sends{0}, receives{slots_each_way};
        std::array<request, stage_request> requests{};
        std::uint32_t stage = 0;  // the stage that runs, if any
        stage_call running;       // the same for the transport
        bool held = false;        // the next chunk begins when peers have read the lane's slot
        bool brief = false;       // a brief chunk's stage runs
    };
    class port;

    void begin_lane(int number) noexcept;
    int request_of(const lane& l, int number) const noexcept {
        return call_.in.first_request + l.number * requests_per_lane + number;
    }

    endpoint& net_;
    shape shape_;
    std::size_t most_segment_;  // bytes of the longest segment that a message may be cut into
    // The schedules of a chunk and of the last one.
    struct {
        compiled_schedule full, tail;
    } code_;
    std::vector<lane> lanes_;
    // Memory that all lanes need, and that is borrowed for the call in flight.
    struct {
        std::size_t bytes = 0;
        scratch_pool::block borrowed;
    } scratch_;
    std::vector<const void*> inputs_;  // of the reduction that runs
    program_buffers buffers_;
    // The call in flight.
    struct {
        call_context in;
        int number = 0;  // what distinguishes it from others in flight, in the tags of its messages
        call_tags tags;
        recorder* events = nullptr;
        int lanes_left = 0;  // that have not ended
    } call_;
    lane_starter starter_{lane_start::one_by_one};
};

}  // namespace terrace::detail
