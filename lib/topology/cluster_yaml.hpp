#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "topology/hardware.hpp"
#include "topology/model.hpp"
#include "topology/node.hpp"

namespace terrace {

/// Reads a cluster file: `terrace_topology: 1`, `name:`, and `levels:` with sizes or a `tree:` (read_hierarchy). With
/// `node: {hwloc: FILE}`, `{nccl: FILE}` (relative to the cluster file) or `{synthetic: "package:2 core:4"}`, and
/// perhaps `ranks: gpus` and `nvlink: RATE`, all nodes are alike: `levels:` then lists those above the node, whose
/// innermost children are nodes, and may be left out for a single node. With `domains:` (read_domains) nodes may be of
/// several types, `nodes: {big: {hwloc: FILE}, small: {levels: [...]}, tiny: 4}`. @throws input_error
topology read_cluster(const std::filesystem::path& file, const node_reader& read);

/// One node as a machine of its own.
topology single_node(std::string name, node n);

/// The machine whose nodes, the ranks of `above`, all look like `inside`, which has no level between nodes.
/// @throws usage_error if there are too many levels or ranks
topology with_nodes(const hierarchy& above, topology inside);
/// The same with several kinds of nodes (side_by_side), whose names are those of the types.
/// @param type_of_node by node, which of `types` it is
topology with_nodes(const hierarchy& above, std::vector<topology> types, std::vector<int> type_of_node);

/// The machine as a cluster file, which reads back equal; the inside of nodes is written out.
std::string write_cluster(const topology& t);

}  // namespace terrace
