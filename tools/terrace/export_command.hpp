#pragma once

#include <filesystem>
#include <string>

namespace terrace::detail {

/// `terrace export PLAN --rankfile|--hostfile|--simgrid|--json [-o FILE]`: writes a plan for other programs.
struct export_command {
    std::filesystem::path plan_file;
    bool rankfile = false, hostfile = false, simgrid = false, json = false;  ///< one of them
    std::string output;                                                      ///< a file; empty: standard output
    bool force = false;                                                      ///< replaces what Terrace did not write

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
