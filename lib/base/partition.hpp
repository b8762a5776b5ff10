#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "base/range.hpp"

namespace terrace::detail {

/// Returns part i of `whole`, cut into `parts` consecutive parts whose counts differ by at most one quantum. Cuts
/// inside `whole` lie on multiples of `quantum` from element 0 (not from whole.begin), so cuts of nested and
/// neighbouring ranges coincide. Parts may be empty. This is the only place where elements are divided among ranks.
/// Requires parts >= 1, 0 <= i < parts, quantum >= 1.
range partition(range whole, int parts, int i, std::int64_t quantum = 1) noexcept;

/// Returns i modulo n, in 0 ... n-1 also for negative i: for positions around a ring.
constexpr int wrap(int i, int n) noexcept {
    const int r = i % n;
    return r < 0 ? r + n : r;
}

/// Returns ceil(a / b) for a >= 0, b > 0.
template <std::integral T>
constexpr T div_ceil(T a, std::type_identity_t<T> b) noexcept {
    return a / b + (a % b != 0);
}

/// Returns the smallest multiple of b that is >= a, for a >= 0, b > 0.
template <std::integral T>
constexpr T round_up(T a, std::type_identity_t<T> b) noexcept {
    return div_ceil(a, b) * b;
}

/// Returns the largest multiple of b that is <= a, for a >= 0, b > 0.
template <std::integral T>
constexpr T round_down(T a, std::type_identity_t<T> b) noexcept {
    return a / b * b;
}

/// Returns ceil(log2(n)) for n >= 1: the number of doublings from 1 to at least n.
constexpr int ceil_log2(int n) noexcept {
    int bits = 0;
    for (std::int64_t reach = 1; reach < n; reach *= 2) ++bits;
    return bits;
}

}  // namespace terrace::detail
