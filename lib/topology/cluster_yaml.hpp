#pragma once

#include <filesystem>
#include <string>

#include "topology/model.hpp"

namespace terrace {

/// Reads a cluster file: `terrace_topology: 1`, `name:`, and `levels:` with sizes or a `tree:` (read_hierarchy). With
/// `node: {hwloc: FILE, ranks: gpus}` all nodes are alike: FILE (relative to the cluster file) gives the levels inside
/// one, through `import_node`; `levels:` then lists those above, whose innermost children are nodes, and may be left
/// out for a single node. @throws input_error
topology read_cluster(const std::filesystem::path& file, const node_importer& import_node);

/// The machine as a cluster file, which reads back equal; the inside of nodes is written out.
std::string write_cluster(const topology& t);

}  // namespace terrace
