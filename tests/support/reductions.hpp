#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <terrace/types.hpp>

#include "support/dice.hpp"

namespace terrace::detail::test {

/// One k-input reduction in one arena: buffers anywhere in it, all other bytes poison. Whoever runs it works on a copy
/// of the arena, on this machine or on a device, and asks what is wrong with that.
class reduction {
public:
    struct form {
        element_type type;
        reduce_op op;
        int k;
        std::int64_t count;
        int divisor = 1;
        bool in_place = false;  ///< dst is one of the sources
        bool aligned = true;    ///< all buffers alike, to 16 bytes; else each as it comes, to its elements
        /// What the host's kernels are compared with by bits: NaN, infinities, subnormals and zeros of either sign
        /// among them; of one input nothing is divided. Else numbers whose result an oracle knows.
        bool any_bits = true;
    };

    /// Places of the arena are multiples of this, which a device's allocations are, too.
    static constexpr std::size_t alignment = 256;

    reduction(const form& what, dice& random);

    const form& what() const noexcept { return what_; }
    std::size_t dst() const noexcept { return dst_; }  ///< [bytes] in the arena
    const std::vector<std::size_t>& sources() const noexcept { return sources_; }
    std::size_t bytes() const noexcept { return bytes_; }
    const std::byte* arena() const noexcept { return arena_; }

    /// Of an arena in which it has run: the first wrong byte or element, and of what. Empty where all is right: by bits
    /// as the host's kernels do, or by an oracle in 64 bits, which knows how far rounding may lead.
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

/// Every type, op and some of what a kernel may stumble over.
/// @param tile [bytes] that a kernel takes at once
std::vector<reduction::form> reduction_forms(std::int64_t tile, dice& random);

}  // namespace terrace::detail::test
