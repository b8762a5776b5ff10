#pragma once

#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// Bytes that this rank adds up in a second, piece by piece as messages arrive [B/s]. Not collective.
double reduction_rate();
/// The least of all ranks while all of them add up [B/s]. Collective.
double shared_reduction_rate(const world& w);

}  // namespace terrace::detail::bench
