#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/partition.hpp"

namespace terrace::detail {

/// A piece of a vector. The pieces are consecutive in the vector, but lie in several places of the caller's memory.
struct call_piece {
    const std::byte* given = nullptr;
    std::byte* result = nullptr;
    std::int64_t count = 0;  ///< elements
};

/// Calls f(some, piece, first) for each piece that overlaps `part`. `some` is the overlap, in elements of the vector,
/// and begins at element `first` of the piece.
template <class F>
void for_each_piece(std::span<const call_piece> pieces, range part, F f) noexcept {
    std::int64_t begin = 0;  // begin of the piece in the vector
    for (const call_piece& p : pieces) {
        const range some{std::max(begin, part.begin), std::min(begin + p.count, part.end)};
        if (some.begin < some.end) f(some, p, some.begin - begin);
        begin += p.count;
    }
}

}  // namespace terrace::detail
