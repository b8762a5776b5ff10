#pragma once

#include <array>
#include <complex>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include <terrace/types.hpp>

// Functions and traits of element types and reductions (include/terrace/element_types.def, reduce_ops.def).

namespace terrace::detail {

inline constexpr std::array all_element_types{
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) element_type::name,
#include <terrace/element_types.def>
};

inline constexpr std::array all_reduce_ops{
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) reduce_op::name,
#include <terrace/reduce_ops.def>
};

/// Returns visit(std::type_identity<T>()) for the C++ type T of an element type.
template <class Visit>
constexpr decltype(auto) with_type(element_type type, Visit&& visit) {
    switch (type) {
// clang-format off
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) \
        case element_type::name: return visit(std::type_identity<element>());
#include <terrace/element_types.def>
        // clang-format on
    }
    __builtin_unreachable();
}

/// Type in which reductions of T compute; T for types that are not in the table.
template <class T>
struct accumulator_of {
    using type = T;
};
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) \
    template <>                                                     \
    struct accumulator_of<element> {                                \
        using type = accumulator;                                   \
    };
#include <terrace/element_types.def>
template <class T>
using accumulator_t = typename accumulator_of<T>::type;

/// True for types whose values are floating-point numbers of any width.
template <class T>
inline constexpr bool is_float_element = std::is_floating_point_v<accumulator_t<T>>;
constexpr bool is_float(element_type type) noexcept {
    return with_type(type, []<class T>(std::type_identity<T>) { return is_float_element<T>; });
}

/// True for complex numbers.
template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;

template <class T>
struct parts_of {
    using type = T;
};
template <class T>
struct parts_of<std::complex<T>> {
    using type = T;
};
/// Type of the real and the imaginary part of a complex number; T for all other types.
template <class T>
using part_t = typename parts_of<T>::type;

/// Returns true for floating-point types that are not complex.
constexpr bool is_real(element_type type) noexcept {
    return is_defined(reduce_op::premul_sum, type) && is_defined(reduce_op::min, type) &&
           !is_defined(reduce_op::band, type);
}

/// Returns true for reductions whose bits depend on the order of the operations.
constexpr bool rounds(element_type type, reduce_op op) noexcept {
    return is_defined(reduce_op::premul_sum, type) && op != reduce_op::min && op != reduce_op::max;
}

/// Returns true for operations that NCCL has.
constexpr bool nccl_has(reduce_op op) noexcept {
    constexpr std::string_view names[] = {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) #nccl,
#include <terrace/reduce_ops.def>
    };
    return names[static_cast<std::size_t>(op)] != "ncclNumOps";
}

/// Returns true for types that NCCL has.
constexpr bool nccl_has(element_type type) noexcept {
    constexpr std::string_view names[] = {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) #nccl,
#include <terrace/element_types.def>
    };
    return names[static_cast<std::size_t>(type)] != "ncclNumTypes";
}

/// Returns the error for an operation not defined for a type: "min is not defined for boolean, which has land, ...".
std::string undefined_text(reduce_op op, element_type type);

template <template <class...> class List, class Ignored, class... Elements>
struct list_without_first {
    using type = List<Elements...>;
};
/// List<T...> with the C++ types of all element types.
template <template <class...> class List>
using list_of_elements = typename list_without_first<List, void
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) , element
#include <terrace/element_types.def>
                                                     >::type;

/// Returns the bits of the fraction of a floating-point element type, without the leading 1.
template <class T>
constexpr int fraction_bits() noexcept {
    using wide = accumulator_t<T>;
    int bits = 0;
    for (wide step = wide(0.5); static_cast<wide>(static_cast<T>(1 + step)) != 1; step /= 2) ++bits;
    return bits;
}

/// Returns the exponent of the largest power of two that a floating-point element type can represent.
template <class T>
constexpr int max_exponent() noexcept {
    using wide = accumulator_t<T>;
    int exponent = 0;
    for (wide next = 2; static_cast<wide>(static_cast<T>(next)) == next; next *= 2) {
        ++exponent;
        if (next > std::numeric_limits<wide>::max() / 2) break;
    }
    return exponent;
}

}  // namespace terrace::detail
