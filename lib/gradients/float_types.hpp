#pragma once

#include <cstddef>
#include <cstdint>

#include <terrace/types.hpp>

#include "base/element_types.hpp"

namespace terrace::detail {

/// Calls visit(std::type_identity<T>()) for the C++ type T of a floating-point type, which all parameters have
/// (parameters.cpp).
template <class Visit>
void with_float_type(element_type type, Visit&& visit) {
    with_type(type, [&]<class T>(std::type_identity<T> tag) {
        if constexpr (is_float_element<T>) visit(tag);
    });
}

/// Adds `count` elements at `more` to those at `data`.
inline void add_floats(std::byte* data, const std::byte* more, std::int64_t count, element_type type) noexcept {
    with_float_type(type, [&]<class T>(std::type_identity<T>) {
        using wide = accumulator_t<T>;
        T* to = reinterpret_cast<T*>(data);
        const T* from = reinterpret_cast<const T*>(more);
        for (std::int64_t i = 0; i < count; ++i)
            to[i] = static_cast<T>(static_cast<wide>(static_cast<wide>(to[i]) + static_cast<wide>(from[i])));
    });
}

/// Multiplies `count` elements by a factor.
inline void scale_floats(std::byte* data, std::int64_t count, element_type type, double factor) noexcept {
    with_float_type(type, [&]<class T>(std::type_identity<T>) {
        using wide = accumulator_t<T>;
        T* to = reinterpret_cast<T*>(data);
        for (std::int64_t i = 0; i < count; ++i)
            to[i] = static_cast<T>(static_cast<wide>(to[i]) * static_cast<wide>(factor));
    });
}

}  // namespace terrace::detail
