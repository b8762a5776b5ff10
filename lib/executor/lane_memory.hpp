#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/partition.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

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

}  // namespace terrace::detail
