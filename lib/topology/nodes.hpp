#pragma once

#include <span>
#include <string>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/model.hpp"
#include "topology/node.hpp"
#include "topology/node_nics.hpp"

namespace terrace::detail {

/// Returns one node as a machine of its own.
topology single_node(std::string name, node n);

/// Returns a machine with a node like `inside` for each rank of `above`. `inside` has no level between nodes.
/// @throws usage_error if there are too many levels or ranks
topology with_nodes(const hierarchy& above, topology inside);
/// Returns the same with several types of nodes (side_by_side). The name of a type is that of its topology.
/// @param type_of_node by node: its index in `types`
topology with_nodes(const hierarchy& above, std::vector<topology> types, std::vector<int> type_of_node);

/// Returns only the levels of such a machine. Nodes get the NICs of their descriptions if some node has several. The
/// NICs of a node together are as fast as its link; an assumed link gets the bandwidth of the description.
/// @param above levels between nodes; none for one node   @param kinds different nodes (side_by_side)
/// @param kind_of_node by node: its index in `kinds`
hierarchy with_nodes(const hierarchy& above, std::span<const job_node> kinds, std::span<const int> kind_of_node);

}  // namespace terrace::detail
