#include "kernels/reduce.hpp"

#include <algorithm>
#include <limits>

namespace terrace {

namespace {

template <class T>
T canonical(T x) noexcept {
    return x == x ? x : std::numeric_limits<T>::quiet_NaN();
}

// Two inputs: the step of a ring. `ivdep` is true: dst is a source or does not touch it, so no iteration sees another's
// result.
template <class T>
void add_two(T* dst, const T* a, const T* b, std::int64_t count) noexcept {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) dst[i] = canonical(a[i] + b[i]);
}

// More inputs: a tile of sums stays in the innermost cache while the inputs stream past it once.
template <class T>
void add_many(T* dst, const T* const* sources, int k, std::int64_t count) noexcept {
    constexpr std::int64_t tile = 512;
    T sum[tile];
    for (std::int64_t begin = 0; begin < count; begin += tile) {
        const std::int64_t n = std::min(tile, count - begin);
        const T* first = sources[0] + begin;
        const T* second = sources[1] + begin;
        for (std::int64_t i = 0; i < n; ++i) sum[i] = first[i] + second[i];
        for (int s = 2; s < k; ++s) {
            const T* next = sources[s] + begin;
            for (std::int64_t i = 0; i < n; ++i) sum[i] += next[i];
        }
        for (std::int64_t i = 0; i < n; ++i) dst[begin + i] = canonical(sum[i]);
    }
}

template <class T>
void add(void* dst, const void* const* sources, int k, std::int64_t count) {
    const auto* typed = reinterpret_cast<const T* const*>(sources);
    if (k == 2) add_two(static_cast<T*>(dst), typed[0], typed[1], count);
    else add_many(static_cast<T*>(dst), typed, k, count);
}

}  // namespace

reduce_kernel find_reduce(element_type type, reduce_op) noexcept {
    return type == element_type::float32 ? add<float> : add<double>;
}

}  // namespace terrace
