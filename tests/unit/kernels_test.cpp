#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/element_types.hpp"
#include "kernels/reduce.hpp"

namespace terrace::detail::kernels_test {

namespace {

// Returns the result of an operation on two elements, computed in double, or bit by bit in 64-bit integers.
template <class T>
double plain(reduce_op op, double a, double b) {
    switch (op) {
        case reduce_op::sum: return a + b;
        case reduce_op::prod: return a * b;
        case reduce_op::min: return std::min(a, b);
        case reduce_op::max: return std::max(a, b);
        case reduce_op::avg:
        case reduce_op::premul_sum: return a + b;
        case reduce_op::land: return a != 0 && b != 0;
        case reduce_op::lor: return a != 0 || b != 0;
        case reduce_op::lxor: return (a != 0) != (b != 0);
        default: break;
    }
    const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
    return static_cast<double>(op == reduce_op::band ? x & y : op == reduce_op::bor ? x | y : x ^ y);
}

template <class T>
double value(T x) {
    if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(x);
    else if constexpr (is_complex<T>) return x.imag() == 0 ? static_cast<double>(x.real()) : -1;
    else return static_cast<double>(static_cast<float>(x));
}

template <class T>
T make(int x) {
    if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(x);
    else return T(static_cast<float>(x));
}

template <element T>
void expect_combined(reduce_op op, int k, std::int64_t count, bool in_place) {
    const int divisor = op == reduce_op::avg ? 4 : 1;
    // Returns inputs so small that products and sums of up to 16 of them are exact in every type.
    const auto input = [&](std::size_t i, int s) {
        const int spread = static_cast<int>((i * 7 + static_cast<std::size_t>(s) * 13) % 5);
        if (std::is_same_v<T, bool>) return spread % 2;
        return op == reduce_op::prod ? (s < 3 ? 1 + spread % 3 : 1) : spread;
    };
    using stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;  // std::vector<bool> has no addresses
    std::vector<std::vector<stored>> inputs;
    for (int s = 0; s < k; ++s) {
        std::vector<stored>& v = inputs.emplace_back(static_cast<std::size_t>(count) + 1);
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = make<T>(input(i, s));
    }
    std::vector<stored> fresh(static_cast<std::size_t>(count) + 2, make<T>(99));
    stored* out = in_place ? inputs.back().data() + 1 : fresh.data() + 1;
    std::vector<const void*> sources;
    for (const auto& v : inputs) sources.push_back(v.data() + 1);  // not aligned to a vector register
    find_reduce(element_type_of<T>, op)(out, sources.data(), k, count, divisor);
    for (std::int64_t i = 0; i < count; ++i) {
        double expected = input(static_cast<std::size_t>(i) + 1, 0);
        for (int s = 1; s < k; ++s) expected = plain<T>(op, expected, input(static_cast<std::size_t>(i) + 1, s));
        expected /= divisor;
        if (std::is_integral_v<T>) expected = std::trunc(expected);
        ASSERT_EQ(value(out[i]), expected)
            << to_string(element_type_of<T>) << ' ' << to_string(op) << " of " << k << " x " << count << " at " << i;
    }
    EXPECT_EQ(value(fresh.front()), value(make<T>(99)));
    EXPECT_EQ(value(fresh.back()), value(make<T>(99)));
}

template <class T>
class kernels_of : public testing::Test {};
TYPED_TEST_SUITE(kernels_of, list_of_elements<testing::Types>);

template <class T>
T reduce_values(reduce_op op, const std::vector<T>& values) {
    std::vector<const void*> sources;
    for (const T& v : values) sources.push_back(&v);
    T out{};
    find_reduce(element_type_of<T>, op)(&out, sources.data(), static_cast<int>(values.size()), 1, 1);
    return out;
}

}  // namespace

TYPED_TEST(kernels_of, combine_any_number_and_count) {
    for (reduce_op op : all_reduce_ops) {
        if (!is_defined(op, element_type_of<TypeParam>)) {
            EXPECT_EQ(find_reduce(element_type_of<TypeParam>, op), nullptr) << to_string(op);
            continue;
        }
        for (int k : {2, 3, 5, 16})
            for (std::int64_t count : {0, 1, 15, 16, 17, 511, 512, 513, 1500})
                for (bool in_place : {false, true}) expect_combined<TypeParam>(op, k, count, in_place);
    }
}

TEST(kernels, nan_is_canonical_and_propagates) {
    const float odd = std::bit_cast<float>(0xffc01234u);
    for (reduce_op op : {reduce_op::sum, reduce_op::prod, reduce_op::min, reduce_op::max})
        for (std::size_t k : {2u, 3u})
            for (std::size_t where = 0; where < k; ++where) {
                std::vector<float> values(k, 1.0f);
                values[where] = odd;
                EXPECT_EQ(std::bit_cast<std::uint32_t>(reduce_values(op, values)), 0x7fc00000u);
            }
}

TEST(kernels, minus_zero_is_below_plus_zero) {
    for (const std::vector<double>& zeros : {std::vector{0.0, -0.0}, {-0.0, 0.0}}) {
        EXPECT_TRUE(std::signbit(reduce_values(reduce_op::min, zeros)));
        EXPECT_FALSE(std::signbit(reduce_values(reduce_op::max, zeros)));
    }
}

TEST(kernels, integers_wrap_around) {
    EXPECT_EQ(reduce_values<std::int8_t>(reduce_op::sum, {127, 1}), -128);
    EXPECT_EQ(reduce_values<std::int32_t>(reduce_op::prod, {1 << 30, 4}), 0);
    EXPECT_EQ(reduce_values<std::int64_t>(reduce_op::sum, {std::numeric_limits<std::int64_t>::max(), 1}),
              std::numeric_limits<std::int64_t>::min());
}

TEST(kernels, complex_numbers_multiply) {
    using c = std::complex<float>;
    EXPECT_EQ(reduce_values<c>(reduce_op::prod, {{1, 2}, {3, -4}, {0, 1}}), c(-2, 11));
    const c nan = reduce_values<c>(reduce_op::prod, {{1, std::bit_cast<float>(0xffc01234u)}, {3, 4}});
    EXPECT_EQ(std::bit_cast<std::uint32_t>(nan.real()), 0x7fc00000u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(nan.imag()), 0x7fc00000u);
}

TEST(kernels, multiply_rounds_once) {
    for (const vectors v : {vectors::plain, widest_vectors()}) {
        std::vector<float16> x(1003, float16(3.0f));
        multiply(x.data(), x.data(), 1003, element_type::float16, 1.0 / 3, v);
        for (const float16 each : x) ASSERT_EQ(static_cast<float>(each), static_cast<float>(float16(1.0f)));
        const std::vector<std::complex<double>> from(1003, {1, -2});
        std::vector<std::complex<double>> to(1003);
        multiply(to.data(), from.data(), 1003, element_type::complex128, 0.1, v);
        for (const auto& each : to) ASSERT_EQ(each, std::complex<double>(0.1, -0.2));
    }
}

// Every node of the tree is a reduction of two inputs, rounded to the type.
TEST(kernels, combine_by_tree) {
    constexpr std::int64_t count = 3001;
    std::mt19937_64 random(3);
    for (const element_type type : all_element_types)
        for (const reduce_op op : {reduce_op::sum, reduce_op::prod, reduce_op::avg}) {
            if (!rounds(type, op)) continue;
            const std::size_t size = static_cast<std::size_t>(count) * size_of(type);
            for (const int k : {1, 2, 3, 4, 5, 7, 8, 13}) {
                std::vector<std::vector<std::uint64_t>> inputs(static_cast<std::size_t>(k));
                std::vector<const void*> sources;
                for (auto& each : inputs) {
                    each.resize(size / 8 + 1);
                    std::generate(each.begin(), each.end(), std::ref(random));
                    sources.push_back(each.data());
                }
                const auto pair = find_reduce(type, op);
                const auto by_hand = [&](const auto& self, int first, int n) -> std::vector<std::uint64_t> {
                    if (n == 1) return inputs[static_cast<std::size_t>(first)];
                    int left = 1;
                    while (2 * left < n) left *= 2;
                    const auto a = self(self, first, left), b = self(self, first + left, n - left);
                    const void* two[] = {a.data(), b.data()};
                    std::vector<std::uint64_t> sum(a.size());
                    pair(sum.data(), two, 2, count, op == reduce_op::avg && n == k ? k : 1);
                    return sum;
                };
                const auto expected = by_hand(by_hand, 0, k);
                for (const vectors v : {vectors::plain, widest_vectors()}) {
                    if (k == 1) continue;
                    std::vector<std::vector<std::uint64_t>> copies = inputs;  // the result replaces one of them
                    auto& result = copies[static_cast<std::size_t>(k) / 2];
                    for (std::size_t s = 0; s < copies.size(); ++s) sources[s] = copies[s].data();
                    find_reduce(type, op, v, grouping::by_tree)(result.data(), sources.data(), k, count,
                                                                op == reduce_op::avg ? k : 1);
                    ASSERT_EQ(std::memcmp(result.data(), expected.data(), size), 0)
                        << to_string(type) << ' ' << to_string(op) << " of " << k;
                }
            }
        }
}

TEST(kernels, any_byte_but_zero_is_true) {
    const unsigned char bytes[] = {2, 4};
    const void* sources[] = {&bytes[0], &bytes[1]};
    unsigned char out = 99;
    find_reduce(element_type::boolean, reduce_op::land)(&out, sources, 2, 1, 1);
    EXPECT_EQ(out, 1);
    find_reduce(element_type::boolean, reduce_op::lxor)(&out, sources, 2, 1, 1);
    EXPECT_EQ(out, 0);
}

TEST(kernels, logical_operations_of_integers_give_0_or_1) {
    EXPECT_EQ(reduce_values<std::int32_t>(reduce_op::land, {2, 4}), 1);
    EXPECT_EQ(reduce_values<std::int32_t>(reduce_op::lor, {0, -4, 0}), 1);
    EXPECT_EQ(reduce_values<std::int32_t>(reduce_op::lxor, {2, 4, 8}), 1);
    EXPECT_EQ(reduce_values<std::int8_t>(reduce_op::band, {-128, -1}), -128);
}

TEST(kernels, short_floats_accumulate_in_float_and_round_once) {
    // 2048 + 1 is not a float16: if each step rounded, the ones would be lost.
    std::vector<float16> values{float16(2048.0f), float16(1.0f), float16(1.0f), float16(1.0f), float16(1.0f)};
    EXPECT_EQ(static_cast<float>(reduce_values(reduce_op::sum, values)), 2052.0f);
    std::vector<bfloat16> short_values{bfloat16(256.0f), bfloat16(1.0f), bfloat16(1.0f)};
    EXPECT_EQ(static_cast<float>(reduce_values(reduce_op::sum, short_values)), 258.0f);
}

TEST(types, kinds_say_which_operations_are_defined) {
    EXPECT_TRUE(is_defined(reduce_op::bxor, element_type::uint16));
    EXPECT_FALSE(is_defined(reduce_op::bxor, element_type::float16));
    EXPECT_FALSE(is_defined(reduce_op::bxor, element_type::boolean));
    EXPECT_FALSE(is_defined(reduce_op::sum, element_type::boolean));
    EXPECT_TRUE(is_defined(reduce_op::lor, element_type::boolean));
    EXPECT_TRUE(is_defined(reduce_op::avg, element_type::complex128));
    EXPECT_FALSE(is_defined(reduce_op::max, element_type::complex64));
    EXPECT_TRUE(is_defined(reduce_op::max, element_type::bfloat16));
    EXPECT_EQ(undefined_text(reduce_op::max, element_type::complex64),
              "max is not defined for complex64, which has sum, prod, avg, premul_sum");
}

TEST(types, float16_converts_every_value_and_back) {
    for (std::uint32_t bits = 0; bits <= 0xffffu; ++bits) {
        float16 h;
        h.bits = static_cast<std::uint16_t>(bits);
        const float f = static_cast<float>(h);
        const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
        if (exponent == 31 && mantissa != 0) {
            EXPECT_TRUE(std::isnan(f));
            EXPECT_TRUE(std::isnan(static_cast<float>(float16(f))));
            continue;
        }
        const double size = exponent == 31  ? std::numeric_limits<double>::infinity()
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
        ASSERT_EQ(static_cast<double>(f), bits & 0x8000u ? -size : size);
        ASSERT_EQ(float16(f).bits, bits);
    }
}

TEST(types, float16_rounds_to_nearest_even) {
    for (int bits = 0; bits < 0x7bff; ++bits) {
        float16 low, high;
        low.bits = static_cast<std::uint16_t>(bits);
        high.bits = static_cast<std::uint16_t>(bits + 1);
        const float middle = (static_cast<float>(low) + static_cast<float>(high)) / 2;  // exact
        const std::uint16_t even = bits % 2 == 0 ? low.bits : high.bits;
        ASSERT_EQ(float16(middle).bits, even);
        ASSERT_EQ(float16(std::nextafter(middle, 0.0f)).bits, low.bits);
        ASSERT_EQ(float16(std::nextafter(middle, 1e9f)).bits, high.bits);
    }
    EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
    EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
    EXPECT_EQ(bfloat16(1.00390625f).bits, 0x3f80);  // halfway: rounds to even
    EXPECT_EQ(bfloat16(1.01171875f).bits, 0x3f82);
}

// Inputs are random bits, so all kinds of numbers occur, also NaN and infinity. Count and alignment fit no vector.
TEST(reduce, wide_vectors_give_the_same_bits) {
    if (widest_vectors() != vectors::wide) GTEST_SKIP() << "this machine has no wider vectors";
    constexpr std::size_t bytes = 100'008, at = 8;
    std::mt19937_64 random(1);
    std::vector<std::vector<std::uint64_t>> inputs(5, std::vector<std::uint64_t>(bytes / 8));
    std::vector<const void*> sources;
    for (std::vector<std::uint64_t>& each : inputs) {
        std::generate(each.begin(), each.end(), std::ref(random));
        sources.push_back(reinterpret_cast<const std::byte*>(each.data()) + at);
    }
    for (const element_type type : all_element_types)
        for (const reduce_op op : all_reduce_ops)
            for (const int k : {2, 3, 5})
                for (const int divisor : {1, 3}) {
                    if (!is_defined(op, type) || (divisor > 1 && op != reduce_op::avg)) continue;
                    const auto count = static_cast<std::int64_t>((bytes - at) / size_of(type)) - 3;
                    std::vector<std::byte> plain(bytes), wide(bytes);
                    find_reduce(type, op, vectors::plain)(plain.data(), sources.data(), k, count, divisor);
                    find_reduce(type, op, vectors::wide)(wide.data(), sources.data(), k, count, divisor);
                    ASSERT_EQ(plain, wide) << to_string(type) << " " << to_string(op) << ", " << k << " inputs";
                }
}

}  // namespace terrace::detail::kernels_test
