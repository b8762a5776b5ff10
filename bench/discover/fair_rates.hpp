#pragma once

#include <span>
#include <vector>

namespace terrace::detail::bench {

/// What each stream gets where links are shared fairly: no stream can have more unless one that has less loses some.
/// @param paths by stream, the links that it crosses   @param capacity by link [B/s], positive
/// @returns by stream [B/s]; infinite where it crosses no link
std::vector<double> fair_rates(std::span<const std::vector<int>> paths, std::span<const double> capacity);

}  // namespace terrace::detail::bench
