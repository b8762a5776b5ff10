#pragma once

#include <bit>
#include <cstdint>

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

}  // namespace terrace::detail
