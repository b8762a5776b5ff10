#include "kernels/reduce.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

namespace terrace {

namespace {

// What values are combined in: wide enough that a k-input reduction of a short float rounds once, and unsigned for
// integers, so that overflow wraps.
template <class T>
struct wide {
    using type = T;
};
template <>
struct wide<float16> {
    using type = float;
};
template <>
struct wide<bfloat16> {
    using type = float;
};
template <class T>
using wide_t = typename wide<T>::type;
// What results of avg are divided by: the number of ranks, which a short integer may not hold.
template <class T>
using divisor_t = std::common_type_t<wide_t<T>, int>;

// Signed integers are added and multiplied as unsigned: overflow then wraps. Short ones would be promoted to int first.
template <class T>
using ring_t = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;

struct sum {
    template <class T>
    static T of(T a, T b) noexcept {
        if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<ring_t<T>>(a) + static_cast<ring_t<T>>(b));
        else return a + b;
    }
};

struct prod {
    template <class T>
    static T of(T a, T b) noexcept {
        if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<ring_t<T>>(a) * static_cast<ring_t<T>>(b));
        else return a * b;
    }
};

// a < b of two numbers, with -0 < +0.
template <class T>
bool before(T a, T b) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
        using bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
        return a < b || (a == b && std::bit_cast<bits>(a) < 0);
    } else {
        return a < b;
    }
}

// a != a holds for NaN, which then wins.
struct min {
    template <class T>
    static T of(T a, T b) noexcept {
        return before(a, b) || a != a ? a : b;
    }
};

struct max {
    template <class T>
    static T of(T a, T b) noexcept {
        return before(b, a) || a != a ? a : b;
    }
};

// Sums that are divided in the end.
struct avg : sum {};

template <class T>
T canonical(T x) noexcept {
    if constexpr (std::is_floating_point_v<T>) return x == x ? x : std::numeric_limits<T>::quiet_NaN();
    else return x;
}

// The last step of every reduction.
template <class Op, class T>
T finished(wide_t<T> x, divisor_t<T> divisor) noexcept {
    if constexpr (std::is_same_v<Op, avg>) x = static_cast<wide_t<T>>(x / divisor);
    return static_cast<T>(canonical(x));
}

// Two inputs: the step of a ring. The loop may run in any order: dst is a source or does not touch it, so no iteration
// sees another's result.
template <class Op, class T>
void combine_two(T* dst, const T* a, const T* b, std::int64_t count, divisor_t<T> divisor) noexcept {
    using wide = wide_t<T>;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
        dst[i] = finished<Op, T>(Op::of(static_cast<wide>(a[i]), static_cast<wide>(b[i])), divisor);
}

// More inputs: a tile of results stays in the innermost cache while the inputs stream past it once.
template <class Op, class T>
void combine_many(T* dst, const T* const* sources, int k, std::int64_t count, divisor_t<T> divisor) noexcept {
    using wide = wide_t<T>;
    constexpr std::int64_t tile = 512;
    wide result[tile];
    for (std::int64_t begin = 0; begin < count; begin += tile) {
        const std::int64_t n = std::min(tile, count - begin);
        const T* first = sources[0] + begin;
        const T* second = sources[1] + begin;
        for (std::int64_t i = 0; i < n; ++i)
            result[i] = Op::of(static_cast<wide>(first[i]), static_cast<wide>(second[i]));
        for (int s = 2; s < k; ++s) {
            const T* next = sources[s] + begin;
            for (std::int64_t i = 0; i < n; ++i) result[i] = Op::of(result[i], static_cast<wide>(next[i]));
        }
        for (std::int64_t i = 0; i < n; ++i) dst[begin + i] = finished<Op, T>(result[i], divisor);
    }
}

template <class Op, class T>
void combine(void* dst, const void* const* sources, int k, std::int64_t count, int divisor) {
    // Partial sums of an average are sums.
    if constexpr (std::is_same_v<Op, avg>)
        if (divisor == 1) return combine<sum, T>(dst, sources, k, count, 1);
    const auto* typed = reinterpret_cast<const T* const*>(sources);
    const auto by = static_cast<divisor_t<T>>(divisor);
    if (k == 2) combine_two<Op>(static_cast<T*>(dst), typed[0], typed[1], count, by);
    else combine_many<Op>(static_cast<T*>(dst), typed, k, count, by);
}

template <class T>
reduce_kernel find_op(reduce_op op) noexcept {
    switch (op) {
        case reduce_op::sum: return combine<sum, T>;
        case reduce_op::prod: return combine<prod, T>;
        case reduce_op::min: return combine<min, T>;
        case reduce_op::max: return combine<max, T>;
        case reduce_op::avg: return combine<avg, T>;
    }
    return nullptr;
}

}  // namespace

reduce_kernel find_reduce(element_type type, reduce_op op) noexcept {
    switch (type) {
        case element_type::int8: return find_op<std::int8_t>(op);
        case element_type::int16: return find_op<std::int16_t>(op);
        case element_type::int32: return find_op<std::int32_t>(op);
        case element_type::int64: return find_op<std::int64_t>(op);
        case element_type::uint8: return find_op<std::uint8_t>(op);
        case element_type::uint16: return find_op<std::uint16_t>(op);
        case element_type::uint32: return find_op<std::uint32_t>(op);
        case element_type::uint64: return find_op<std::uint64_t>(op);
        case element_type::float16: return find_op<float16>(op);
        case element_type::bfloat16: return find_op<bfloat16>(op);
        case element_type::float32: return find_op<float>(op);
        case element_type::float64: return find_op<double>(op);
    }
    return nullptr;
}

}  // namespace terrace
