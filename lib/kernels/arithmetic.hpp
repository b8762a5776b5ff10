#pragma once

#include <bit>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

#include <terrace/types.hpp>

#include "base/element_types.hpp"

// Operations on two elements. Processors and GPUs compile the same source, so results have the same bits. All functions
// are constexpr, so nvcc compiles them for both sides. Each row of reduce_ops.def has a struct here.

namespace terrace::detail::arithmetic {

// Type in which values are combined, wide enough to round a reduction of many short floats only once, at the end.
template <class T>
using wide_t = accumulator_t<T>;
// Type of the divisor of avg. The divisor is the number of ranks, which may exceed the range of a short integer.
template <class T>
using divisor_t = std::common_type_t<part_t<wide_t<T>>, int>;

// Unsigned type in which integers are added and multiplied, so overflow wraps. Short types would be promoted to int.
template <class T>
using ring_t = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;

// Type as which elements are combined. Truth values are combined as bytes, so any byte but 0 may mean true.
template <class T>
using kernel_t = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

struct sum {
    template <class T>
    static constexpr T of(T a, T b) noexcept {
        static_assert(!is_complex<T>, "by parts: nvcc drops the operators of std::complex without a word");
        if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<ring_t<T>>(a) + static_cast<ring_t<T>>(b));
        else return a + b;
    }
};

struct prod {
    template <class T>
    static constexpr T of(T a, T b) noexcept {
        if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<ring_t<T>>(a) * static_cast<ring_t<T>>(b));
        else if constexpr (is_complex<T>)  // the operator of std::complex branches at NaN; nvcc drops it (see sum)
            return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
        else return a * b;
    }
};

// Returns a < b, with -0 < +0.
template <class T>
constexpr bool before(T a, T b) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
        using bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
        return a < b || (a == b && std::bit_cast<bits>(a) < 0);
    } else {
        return a < b;
    }
}

// Returns NaN if an operand is NaN: a != a is true for NaN.
struct min {
    template <class T>
    static constexpr T of(T a, T b) noexcept {
        return before(a, b) || a != a ? a : b;
    }
};

struct max {
    template <class T>
    static constexpr T of(T a, T b) noexcept {
        return before(b, a) || a != a ? a : b;
    }
};

// A sum that finished() divides.
struct avg : sum {};

// A sum of elements that multiply() has multiplied by a factor before.
struct premul_sum : sum {};

template <class Operator>
struct bit_by_bit {
    template <class T>
    static constexpr T of(T a, T b) noexcept {
        return static_cast<T>(Operator()(a, b));
    }
};
struct band : bit_by_bit<std::bit_and<>> {};
struct bor : bit_by_bit<std::bit_or<>> {};
struct bxor : bit_by_bit<std::bit_xor<>> {};

// Operation on truth values, without branches, so loops vectorise.
template <class Operator>
struct of_truth_values {
    template <class T>
    static constexpr T of(T a, T b) noexcept {
        return static_cast<T>(Operator()(a != 0, b != 0));
    }
};
struct land : of_truth_values<std::bit_and<>> {};
struct lor : of_truth_values<std::bit_or<>> {};
struct lxor : of_truth_values<std::bit_xor<>> {};

// True for operations that combine the real and the imaginary parts of complex numbers separately.
template <class Op>
inline constexpr bool is_by_parts = std::is_base_of_v<sum, Op>;

template <class T>
constexpr T canonical(T x) noexcept {
    if constexpr (is_complex<T>) return {canonical(x.real()), canonical(x.imag())};
    else if constexpr (std::is_floating_point_v<T>) return x == x ? x : std::numeric_limits<T>::quiet_NaN();
    else return x;
}

// Finishes a reduction: divides the result of avg, and makes NaN canonical.
template <class Op, class T>
constexpr wide_t<T> finished(wide_t<T> x, divisor_t<T> divisor) noexcept {
    if constexpr (std::is_same_v<Op, avg>) x = static_cast<wide_t<T>>(x / divisor);
    return canonical(x);
}

}  // namespace terrace::detail::arithmetic
