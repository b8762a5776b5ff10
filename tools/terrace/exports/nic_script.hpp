#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The NIC of each rank of a node, counted from 0 in the node, for the largest node. Empty if the ranks of some node
/// use others than the first ones of this.
std::vector<int> nics_by_local_rank(const hierarchy& machine);

}  // namespace terrace::detail
