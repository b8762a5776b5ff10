#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "topology/formats.hpp"
#include "topology/hardware.hpp"

namespace terrace::detail {

/// Limits of an import. An import that exceeds one fails.
struct import_limits {
    std::uint64_t memory = 256 << 20;  ///< address space in addition to that of the process [B]
    std::chrono::seconds cpu{1};
    std::chrono::milliseconds wall{6'000};  ///< longer than `cpu`, since a busy machine may delay the import
};

/// Runs `import` in a forked child process. Input that crashes the importer, hangs it or uses too much memory then
/// causes an error message. `name` is the file's name for messages. The calling process must have a single thread.
/// @throws input_error for the errors of `import`, and if the child fails
hardware import_in_child(const std::function<hardware()>& import, const std::string& name,
                         const import_limits& limits = {});

/// Reads a node (read_node) in a child process.
hardware read_node_in_child(const topology_format& format, const std::string& source);

}  // namespace terrace::detail
