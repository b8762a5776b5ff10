#pragma once

#include <filesystem>
#include <string>

#include "topology/model.hpp"

namespace terrace::detail {

/// Returns this machine as a cluster of one node. @param ranks what a rank is (parse_rank_unit)
topology this_machine(hardware parts, const std::string& ranks);

/// `terrace detect [-o FILE] [--node-file FILE] [--ranks UNIT]`: describes the machine it runs on as a cluster file.
struct detect_command {
    std::filesystem::path output;     ///< cluster file; empty: standard output
    std::filesystem::path node_file;  ///< where the machine goes as hwloc XML; empty: into the cluster file
    bool force = false;               ///< replaces files that Terrace did not write
    std::string ranks;                ///< what a rank is (parse_rank_unit)

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
