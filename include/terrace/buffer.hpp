#pragma once

#include <terrace/export.hpp>

#include <ranges>
#include <type_traits>

#include <terrace/types.hpp>

namespace terrace {

/// A contiguous range of elements that calls can read: a std::span, std::vector, std::array, std::string, window or C
/// array. A temporary span is allowed, but no temporary container: an asynchronous call would read freed memory.
template <class R>
concept data_buffer = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::ranges::borrowed_range<R> && data_element<std::ranges::range_value_t<R>>;

/// A data_buffer that calls can write to.
template <class R>
concept mutable_data_buffer =
    data_buffer<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// The element type of a buffer, without const.
template <data_buffer R>
using buffer_element_t = std::ranges::range_value_t<R>;

/// A data_buffer whose elements can be reduced.
template <class R>
concept element_buffer = data_buffer<R> && element<buffer_element_t<R>>;

/// An element_buffer that calls can write to.
template <class R>
concept mutable_element_buffer = element_buffer<R> && mutable_data_buffer<R>;

/// A mutable_data_buffer R of the same elements as the buffer S.
template <class R, class S>
concept mutable_buffer_like =
    data_buffer<S> && mutable_data_buffer<R> && std::same_as<buffer_element_t<R>, buffer_element_t<S>>;

}  // namespace terrace
