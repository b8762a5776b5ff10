#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace terrace {

/// The type of one element of a buffer.
enum class element_type : std::uint8_t { float32, float64 };

/// How elements of different ranks are combined.
enum class reduce_op : std::uint8_t { sum };

/// A C++ type that stands for an element_type.
template <class T>
concept element = std::same_as<T, float> || std::same_as<T, double>;

template <element T>
inline constexpr element_type element_type_of = std::same_as<T, float> ? element_type::float32 : element_type::float64;

/// Bytes of one element.
constexpr std::size_t size_of(element_type type) noexcept { return type == element_type::float32 ? 4 : 8; }

constexpr std::string_view to_string(element_type type) noexcept {
    return type == element_type::float32 ? "float32" : "float64";
}
constexpr std::string_view to_string(reduce_op) noexcept { return "sum"; }

}  // namespace terrace
