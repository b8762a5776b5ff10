#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::detail {

/// Elements begin, ..., end - 1 of a vector. begin <= end.
struct range {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    constexpr std::int64_t count() const noexcept { return end - begin; }
    constexpr bool empty() const noexcept { return begin == end; }
    constexpr bool contains(range other) const noexcept { return begin <= other.begin && other.end <= end; }
    constexpr bool overlaps(range other) const noexcept {
        return std::max(begin, other.begin) < std::min(end, other.end);
    }
    friend constexpr bool operator==(range, range) = default;
};

}  // namespace terrace::detail
