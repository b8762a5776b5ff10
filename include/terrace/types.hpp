#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace terrace {

/// IEEE 754 binary16. Storage and conversion only: arithmetic is done in float. Conversion from float rounds to
/// nearest, ties to even.
struct float16 {
    std::uint16_t bits = 0;

    constexpr float16() noexcept = default;
    explicit constexpr float16(float value) noexcept;
    explicit constexpr operator float() const noexcept;
};

/// The upper half of a float. Conversion rounds as above.
struct bfloat16 {
    std::uint16_t bits = 0;

    constexpr bfloat16() noexcept = default;
    explicit constexpr bfloat16(float value) noexcept;
    explicit constexpr operator float() const noexcept;
};

/// The type of one element of a buffer.
enum class element_type : std::uint8_t {
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64
};

/// How elements of different ranks are combined. NaN propagates in all of them; min and max order -0 below +0. Integers
/// wrap around in sum and prod. avg is the sum divided by the number of ranks; integers truncate towards zero.
enum class reduce_op : std::uint8_t { sum, prod, min, max, avg };

/// A C++ type that stands for an element_type.
template <class T>
concept element = std::same_as<T, std::int8_t> || std::same_as<T, std::int16_t> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t> || std::same_as<T, float16> ||
    std::same_as<T, bfloat16> || std::same_as<T, float> || std::same_as<T, double>;

namespace detail {
template <class T>
inline constexpr element_type type_of{};
template <>
inline constexpr element_type type_of<std::int8_t> = element_type::int8;
template <>
inline constexpr element_type type_of<std::int16_t> = element_type::int16;
template <>
inline constexpr element_type type_of<std::int32_t> = element_type::int32;
template <>
inline constexpr element_type type_of<std::int64_t> = element_type::int64;
template <>
inline constexpr element_type type_of<std::uint8_t> = element_type::uint8;
template <>
inline constexpr element_type type_of<std::uint16_t> = element_type::uint16;
template <>
inline constexpr element_type type_of<std::uint32_t> = element_type::uint32;
template <>
inline constexpr element_type type_of<std::uint64_t> = element_type::uint64;
template <>
inline constexpr element_type type_of<float16> = element_type::float16;
template <>
inline constexpr element_type type_of<bfloat16> = element_type::bfloat16;
template <>
inline constexpr element_type type_of<float> = element_type::float32;
template <>
inline constexpr element_type type_of<double> = element_type::float64;
}  // namespace detail

template <element T>
inline constexpr element_type element_type_of = detail::type_of<T>;

/// Bytes of one element.
constexpr std::size_t size_of(element_type type) noexcept {
    constexpr std::size_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
    return sizes[static_cast<std::size_t>(type)];
}

constexpr std::string_view to_string(element_type type) noexcept {
    constexpr std::string_view names[] = {"int8",   "int16",  "int32",   "int64",    "uint8",   "uint16",
                                          "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
    return names[static_cast<std::size_t>(type)];
}
constexpr std::string_view to_string(reduce_op op) noexcept {
    constexpr std::string_view names[] = {"sum", "prod", "min", "max", "avg"};
    return names[static_cast<std::size_t>(op)];
}

// Without branches, so that loops over them vectorise.

constexpr float16::float16(float value) noexcept {
    const std::uint32_t whole = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = whole >> 16 & 0x8000u, magnitude = whole & 0x7fffffffu;
    // Adding 0.5 lines a subnormal result up with the lowest bits, rounded by the addition.
    const float lined_up = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(lined_up) - std::bit_cast<std::uint32_t>(0.5f);
    const std::uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;  // exponent bias 127 -> 15
    const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const std::uint32_t result = magnitude >= 0x47800000u ? special : magnitude < 0x38800000u ? subnormal : normal;
    bits = static_cast<std::uint16_t>(result | sign);
}

constexpr float16::operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;  // subnormals come out right, too
    const std::uint32_t special = magnitude << 13 | 0x7f800000u;
    const std::uint32_t result = magnitude >= 0x7c00u ? special : std::bit_cast<std::uint32_t>(scaled);
    return std::bit_cast<float>(result | sign);
}

constexpr bfloat16::bfloat16(float value) noexcept {
    const std::uint32_t whole = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = whole + 0x7fffu + (whole >> 16 & 1);
    const bool nan = (whole & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (whole >> 16 | 0x40u) : rounded >> 16);
}

constexpr bfloat16::operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace terrace
