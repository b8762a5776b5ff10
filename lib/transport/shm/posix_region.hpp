#pragma once

#include <functional>
#include <optional>
#include <span>

#include "executor/transport.hpp"

namespace terrace {

/// POSIX shared memory for `ranks`, as transport::share() says. It has a name only until all have mapped it.
/// @param gather_all transport::gather_all
std::optional<shared_region> map_posix_region(
    int rank, int size, std::span<const int> ranks, std::size_t bytes,
    const std::function<void(const void* mine, void* all, std::size_t bytes)>& gather_all);

}  // namespace terrace
