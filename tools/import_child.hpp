#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "topology/model.hpp"

namespace terrace {

/// What an import may use up before it counts as failed.
struct import_limits {
    std::uint64_t memory = 256 << 20;  ///< address space beyond what the process has already [B]
    std::chrono::seconds cpu{5};
    std::chrono::milliseconds wall{10'000};
};

/// Runs `import` in a forked child process, so that a file that crashes, hangs or bloats the importer is an error
/// message. The calling process must have a single thread. @throws input_error for what `import` throws and for how the
/// child ends
hierarchy import_in_child(const node_importer& import, const std::filesystem::path& file, rank_unit ranks,
                          const import_limits& limits = {});

}  // namespace terrace
