#pragma once

#include <filesystem>
#include <string>

#include "topology/formats.hpp"
#include "topology/model.hpp"

namespace terrace::detail {

/// Reads a cluster file: `terrace_topology: 1`, `name:`, and `levels:` with sizes or a `tree:` (read_hierarchy).
/// `node:` describes nodes that are all alike: `{hwloc: FILE}`, `{nccl: FILE}` (relative to the cluster file) or
/// `{synthetic: "package:2 core:4"}`, optionally with `ranks: gpus` and `nvlink: RATE`. `levels:` then lists the levels
/// above nodes; a single node needs none. With `domains:` (read_domains) nodes may have several types: `nodes: {big:
/// {hwloc: FILE}, small: {levels: [...]}, tiny: 4}`. @throws input_error
topology read_cluster(const std::filesystem::path& file, const node_reader& read);

/// Returns the machine as a cluster file that reads back equal. The levels inside nodes are written out.
std::string write_cluster(const topology& t);

}  // namespace terrace::detail
