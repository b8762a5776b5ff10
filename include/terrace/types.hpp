#pragma once

#include <terrace/export.hpp>

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace terrace {

/// IEEE 754 binary16. For storage and conversion only: arithmetic is done in float. Conversion from float rounds to
/// nearest, ties to even; NaN becomes the canonical quiet NaN of the same sign.
struct float16 {
    std::uint16_t bits = 0;

    constexpr float16() noexcept = default;
    explicit constexpr float16(float value) noexcept;
    explicit constexpr operator float() const noexcept;
};

/// The upper half of an IEEE 754 binary32. Conversion rounds as for float16; a NaN keeps its upper bits and becomes
/// quiet.
struct bfloat16 {
    std::uint16_t bits = 0;

    constexpr bfloat16() noexcept = default;
    explicit constexpr bfloat16(float value) noexcept;
    explicit constexpr operator float() const noexcept;
};

/// The type of one element of a buffer. Each row of element_types.def is one.
enum class element_type : std::uint8_t {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) name,
#include <terrace/element_types.def>
};

/// An operation that combines elements of different ranks. NaN propagates in all operations; min and max order -0 below
/// +0. Integers wrap around in sum and prod. avg is the sum divided by the number of ranks; integers truncate towards
/// zero. premul_sum is the sum of elements that each rank has multiplied by its factor. band, bor and bxor work bit by
/// bit. land, lor and lxor regard all but 0 as true, and give 1 (true) or 0. Each row of reduce_ops.def is an
/// operation, and lists the types for which it is defined: is_defined().
enum class reduce_op : std::uint8_t {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) name,
#include <terrace/reduce_ops.def>
};

/// The reduction of a call: an operation, this rank's factor for premul_sum, and whether rounding on the wire is
/// allowed. Calls accept a reduce_op in its place.
class reduction {
public:
    constexpr reduction(reduce_op op) noexcept : op_(op) {}  // NOLINT: an operation is a reduction

    constexpr reduce_op op() const noexcept { return op_; }
    constexpr double factor() const noexcept { return factor_; }
    constexpr bool is_exact() const noexcept { return exact_; }

private:
    friend constexpr reduction premul_sum(double factor) noexcept;
    friend constexpr reduction exact(reduction op) noexcept;

    reduce_op op_;
    bool exact_ = false;
    double factor_ = 1;
};

/// Returns a sum for which each rank first multiplies its elements by its own factor. Products are computed in the
/// accumulator type, and rounded to the element type. reduce_op::premul_sum without this function has the factor 1.
constexpr reduction premul_sum(double factor) noexcept {
    reduction made(reduce_op::premul_sum);
    made.factor_ = factor;
    return made;
}

/// Returns the reduction without rounding on the wire, regardless of options::rounds_on_wire.
constexpr reduction exact(reduction op) noexcept {
    op.exact_ = true;
    return op;
}

/// A C++ type whose values can be reduced: that of a row of element_types.def.
template <class T>
concept element = false
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) || std::same_as<T, element>
#include <terrace/element_types.def>
    ;

/// A C++ type whose values can be sent unchanged: an element, or a byte (char, std::byte).
template <class T>
concept data_element = element<T> || std::same_as<T, char> || std::same_as<T, std::byte>;

namespace detail {
template <class T>
inline constexpr element_type type_of = element_type::uint8;  // for bytes
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) \
    template <>                                                     \
    inline constexpr element_type type_of<element> = element_type::name;
#include <terrace/element_types.def>

// Kinds of element types, as bits.
namespace kind {
inline constexpr unsigned integer = 1, real = 2, logical = 4, complex = 8;
template <class Element, class Accumulator>
constexpr unsigned of() noexcept {
    if constexpr (std::is_same_v<Element, bool>) return logical;
    else if constexpr (std::is_integral_v<Accumulator>) return integer;
    else return std::is_floating_point_v<Accumulator> ? real : complex;
}
}  // namespace kind
}  // namespace detail

/// Returns true if the operation is defined for the type. A call with another pair throws usage_error.
constexpr bool is_defined(reduce_op op, element_type type) noexcept {
    using namespace detail::kind;
    constexpr unsigned accepted[] = {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) kinds,
#include <terrace/reduce_ops.def>
    };
    constexpr unsigned kinds[] = {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) of<element, accumulator>(),
#include <terrace/element_types.def>
    };
    return (accepted[static_cast<std::size_t>(op)] & kinds[static_cast<std::size_t>(type)]) != 0;
}

/// The element_type of a C++ type.
template <element T>
inline constexpr element_type element_type_of = detail::type_of<T>;

/// The element_type by which calls move values of a C++ type: uint8 for bytes.
template <data_element T>
inline constexpr element_type data_element_type_of = detail::type_of<T>;

/// Returns the size of one element in bytes.
constexpr std::size_t size_of(element_type type) noexcept {
    constexpr std::size_t sizes[] = {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) sizeof(element),
#include <terrace/element_types.def>
    };
    return sizes[static_cast<std::size_t>(type)];
}

/// Returns the name of the enumerator, for example "float32".
constexpr std::string_view to_string(element_type type) noexcept {
    constexpr std::string_view names[] = {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) #name,
#include <terrace/element_types.def>
    };
    return names[static_cast<std::size_t>(type)];
}
/// Returns the name of the enumerator, for example "sum".
constexpr std::string_view to_string(reduce_op op) noexcept {
    constexpr std::string_view names[] = {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) #name,
#include <terrace/reduce_ops.def>
    };
    return names[static_cast<std::size_t>(op)];
}

// The conversions have no branches, so that loops over them vectorise.

constexpr float16::float16(float value) noexcept {
    const std::uint32_t whole = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = whole >> 16 & 0x8000u, magnitude = whole & 0x7fffffffu;
    // Adding 0.5 aligns a subnormal result with the lowest bits, and rounds it.
    const float lined_up = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(lined_up) - std::bit_cast<std::uint32_t>(0.5f);
    const std::uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;  // exponent bias 127 -> 15
    const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const std::uint32_t result = magnitude >= 0x47800000u ? special : magnitude < 0x38800000u ? subnormal : normal;
    bits = static_cast<std::uint16_t>(result | sign);
}

constexpr float16::operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;  // also right for subnormals
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
