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

/// Returns the machine whose nodes, the ranks of `above`, all look like `inside`, which has no level between nodes.
/// @throws usage_error if there are too many levels or ranks
topology with_nodes(const hierarchy& above, topology inside);
/// The same with several kinds of nodes (side_by_side), whose names are those of the types.
/// @param type_of_node by node, which of `types` it is
topology with_nodes(const hierarchy& above, std::vector<topology> types, std::vector<int> type_of_node);

/// The same for levels alone. Nodes get the NICs that their descriptions have, if some node has several. Together they
/// are as fast as the node's link, or that as they are if it is assumed.
/// @param above levels between nodes; none for one node   @param kinds different nodes (side_by_side)
/// @param kind_of_node by node, which of `kinds` it is
hierarchy with_nodes(const hierarchy& above, std::span<const job_node> kinds, std::span<const int> kind_of_node);

}  // namespace terrace::detail
