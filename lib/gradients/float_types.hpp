#pragma once

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

}  // namespace terrace::detail
