#pragma once

#include <filesystem>
#include <string>

#include "topology/hardware.hpp"

namespace terrace {

/// Reads a node in this process (see import_hwloc for what that risks). @throws input_error
hardware read_node(node_format format, const std::string& what);

/// What a file holds, judged by how it begins; anything else is taken for YAML.
enum class file_format { hwloc, nccl, slurm, yaml };

/// @throws input_error if the file cannot be read, or is XML of another kind
file_format format_of(const std::filesystem::path& file);

/// Whether the text is a machine in hwloc's one-line notation rather than a file's name: "package:2 core:4".
bool looks_synthetic(const std::string& text);

}  // namespace terrace
