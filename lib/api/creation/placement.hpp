#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>

#include "machine/hierarchy.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// Returns the place of each rank in the plan. If the plan names its nodes, nodes are found by host name (host_index),
/// regardless of their order in MPI. Otherwise nodes come in the order of their lowest rank. Ranks of a node keep their
/// order.
/// @param nodes by rank, the lowest rank on its node
/// @param hosts by rank, the name of its host; empty if the plan names none
/// @param apart memory_apart() of the ranks
/// @throws plan_error if the nodes differ from the plan's, naming the host and both numbers
std::vector<int> places_of(const hierarchy& machine, std::span<const int> nodes, std::span<const std::string> hosts,
                           std::string_view apart = {});

/// Returns the ranks in the plan's order. Collective. @throws plan_error as above, or if the plan is for another number
/// of ranks
team in_places(team ranks, const hierarchy& machine, options::placement place);

}  // namespace terrace::detail
