#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <terrace/types.hpp>

#include "support/dice.hpp"

namespace terrace::detail::test {

/// A k-input reduction in one arena: its buffers are anywhere in the arena, and all other bytes are poison. A test runs
/// it on a copy of the arena, on the host or a device, and passes the copy to wrong().
class reduction {
public:
    struct form {
        element_type type;
        reduce_op op;
        int k;
        std::int64_t count;
        int divisor = 1;
        bool in_place = false;  ///< dst is one of the sources
        bool aligned = true;    ///< all buffers have the same offset from 16 bytes; else different ones
        /// Inputs are any bits (also NaN, infinities, subnormals, zeros of either sign), and the result must have the
        /// bits of the host's kernels; with one input nothing is divided. Else inputs are numbers for an oracle.
        bool any_bits = true;
    };

    /// Alignment of the arena, and of a device's allocations.
    static constexpr std::size_t alignment = 256;

    reduction(const form& what, dice& random);

    const form& what() const noexcept { return what_; }
    std::size_t dst() const noexcept { return dst_; }  ///< [bytes] in the arena
    const std::vector<std::size_t>& sources() const noexcept { return sources_; }
    std::size_t bytes() const noexcept { return bytes_; }
    const std::byte* arena() const noexcept { return arena_; }

    /// Describes the first wrong byte or element of an arena in which the reduction has run; empty if there is none.
    /// Compares with the bits of the host's kernels, or, with a tolerance for rounding, with an oracle in 64 bits.
    std::string wrong(const std::byte* after) const;

private:
    std::string differs(const std::byte* after) const;
    std::string misses(const std::byte* after) const;
    std::string name() const;

    form what_;
    std::size_t dst_ = 0, bytes_ = 0;
    std::vector<std::size_t> sources_;
    std::vector<std::byte> room_;
    std::byte* arena_ = nullptr;
};

/// Returns reductions of every type and op, with counts and alignments that are difficult for kernels.
/// @param tile bytes that a kernel processes at once
std::vector<reduction::form> reduction_forms(std::int64_t tile, dice& random);

}  // namespace terrace::detail::test
