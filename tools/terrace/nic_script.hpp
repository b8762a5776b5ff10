#pragma once

#include <string>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The NIC of each rank of a node, counted from 0 in the node, for the largest node. Empty if the ranks of some node
/// use others than the first ones of this.
std::vector<int> nics_by_local_rank(const hierarchy& machine);

/// A shell script that runs a program with its messages through the NIC that the plan gives the rank: over Open MPI's
/// TCP and UCX. @param interfaces of a node, in the order of its NICs  @throws usage_error if the plan has no NICs, or
/// more than there are interfaces
std::string nic_script(const plan_data& plan, const std::vector<std::string>& interfaces);

}  // namespace terrace::detail
