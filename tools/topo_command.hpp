#pragma once

#include <filesystem>
#include <optional>

#include <CLI/App.hpp>

#include "topology/model.hpp"

namespace terrace {

/// Reads a cluster YAML or, where the file begins with `<`, one node's hwloc XML; hwloc files are imported in a child
/// process. `ranks` says what the ranks of an hwloc XML are (gpus if left out).
/// @throws input_error, and usage_error if `ranks` is given for a cluster YAML, which says so itself
topology load_topology(const std::filesystem::path& file, std::optional<rank_unit> ranks = {});

/// Adds `terrace topo FILE [--json] [--ranks UNIT]`. Its callback prints the machine to stdout. @throws like
/// load_topology
void add_topo_command(CLI::App& app);

}  // namespace terrace
