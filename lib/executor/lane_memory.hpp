#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

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
                std::int64_t wire_elements)
        : element_bytes_(element_bytes),
          wire_(std::make_unique_for_overwrite<std::byte[]>(wire_offset(wire_elements))),
          scratch_(std::make_unique_for_overwrite<std::byte[]>(scratch_bytes)),
          staging_(std::make_unique_for_overwrite<std::byte[]>(staging_bytes)) {}

    /// Begins a chunk.
    /// @param send, recv the chunk's first elements in the caller's buffers; send is only read
    /// @param slot memory that peers reach, with the first `in_slot` elements of scratch; unused if in_slot is 0
    void begin_chunk(std::byte* send, std::byte* recv, std::byte* slot, std::int64_t in_slot) noexcept {
        first_ = {send, recv, in_slot > 0 ? slot : scratch_.get(), wire_.get()};
        in_slot_ = in_slot;
    }

    /// Returns the address of element 0 of a buffer.
    std::byte* first(buffer where) const noexcept { return first_[static_cast<std::size_t>(where)]; }

    /// Returns the address of an operand's first element.
    std::byte* address(const operand& o) const noexcept {
        if (o.where == buffer::scratch && in_slot_ > 0 && o.part.begin >= in_slot_)
            return scratch_.get() + bytes_of(o.part.begin - in_slot_);
        if (o.where == buffer::wire) return wire_.get() + wire_offset(o.part.begin);
        return first(o.where) + bytes_of(o.part.begin);
    }

    std::byte* staging() const noexcept { return staging_.get(); }
    std::size_t bytes_of(std::int64_t elements) const noexcept {
        return static_cast<std::size_t>(elements) * element_bytes_;
    }

private:
    // Room for any wire type: blocks of none are longer than those of 16-bit types.
    static std::size_t wire_offset(std::int64_t element) noexcept {
        return static_cast<std::size_t>(wire_bytes(wire_type::bfloat16, round_up(element, wire_block)));
    }

    std::size_t element_bytes_;
    std::unique_ptr<std::byte[]> wire_, scratch_, staging_;
    std::array<std::byte*, buffers> first_{};
    std::int64_t in_slot_ = 0;  // elements of scratch that lie in the slot
};

}  // namespace terrace::detail
