#pragma once

#include <optional>
#include <vector>

#include <terrace/options.hpp>

#include "bench/measure/world.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

/// Returns the rank at each place of the machine: nodes by their lowest rank, ranks of a node in order. With placement
/// anywhere, rank r is at place r.
std::vector<int> ranks_by_place(const world& w, options::placement place);

/// Returns the payload rate of one TCP connection through a link of each level [B/s]; nothing for levels that are not
/// ethernet or join nothing. Empty if links cannot be measured: all ranks on one host, or not placed by node.
/// Collective; at most about two seconds per level. Without MPI nothing is measured, and ethernet levels have 0.
std::vector<std::optional<double>> measure_goodput(const world& w, const hierarchy& machine, options::placement place);

}  // namespace terrace::detail::bench
