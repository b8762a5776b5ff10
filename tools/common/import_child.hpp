#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "topology/formats.hpp"
#include "topology/hardware.hpp"

namespace terrace::detail {

/// What an import may use up before it counts as failed.
struct import_limits {
    std::uint64_t memory = 256 << 20;  ///< address space beyond what the process has already [B]
    std::chrono::seconds cpu{1};
    std::chrono::milliseconds wall{6'000};  ///< only a machine that is busy with other things takes more than `cpu`
};

/// Runs `import` in a forked child process, so that input that crashes, hangs or bloats the importer is an error
/// message. `name` is the file's, for messages. The calling process must have a single thread.
/// @throws input_error for what `import` throws and for how the child ends
hardware import_in_child(const std::function<hardware()>& import, const std::string& name,
                         const import_limits& limits = {});

/// Reads a node (read_node) in a child process.
hardware read_node_in_child(const topology_format& format, const std::string& source);

}  // namespace terrace::detail
