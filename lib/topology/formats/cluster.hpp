#pragma once

#include <filesystem>
#include <string>

#include "topology/formats.hpp"
#include "topology/model.hpp"

namespace terrace::detail {

/// Reads a cluster file: `terrace_topology: 1`, `name:`, and `levels:` with sizes or a `tree:` (read_hierarchy). With
/// `node: {hwloc: FILE}`, `{nccl: FILE}` (relative to the cluster file) or `{synthetic: "package:2 core:4"}`, and
/// perhaps `ranks: gpus` and `nvlink: RATE`, all nodes are alike: `levels:` then lists those above the node, whose
/// innermost children are nodes, and may be left out for a single node. With `domains:` (read_domains) nodes may be of
/// several types, `nodes: {big: {hwloc: FILE}, small: {levels: [...]}, tiny: 4}`. @throws input_error
topology read_cluster(const std::filesystem::path& file, const node_reader& read);

/// The machine as a cluster file, which reads back equal; the inside of nodes is written out.
std::string write_cluster(const topology& t);

}  // namespace terrace::detail
