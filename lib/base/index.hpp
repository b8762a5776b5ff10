#pragma once

#include <cstddef>

namespace terrace::detail {

/// A rank, level or other number that is never negative, as an index of the standard library's containers.
constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace terrace::detail
