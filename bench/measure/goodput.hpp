#pragma once

#include <optional>
#include <vector>

#include <terrace/options.hpp>

#include "bench/measure/world.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

/// The rank of the world at each place of the machine: nodes by their lowest rank, ranks of a node by rank; or as they
/// come, where they are placed anywhere.
std::vector<int> ranks_by_place(const world& w, options::placement place);

/// Payload bytes a second of one TCP connection through each level's link, by level; nothing for levels that are not
/// ethernet. Empty where links cannot be told: all ranks on one host, or not placed by node. Collective; takes
/// about two seconds a level at most. Without MPI nothing is measured, and a level of ethernet has 0.
std::vector<std::optional<double>> measure_goodput(const world& w, const hierarchy& machine, options::placement place);

}  // namespace terrace::detail::bench
