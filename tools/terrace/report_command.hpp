#pragma once

#include <filesystem>
#include <vector>

#include "tools/terrace/arguments.hpp"

namespace terrace::detail {

/// `terrace report FILE... -o PAGE`: plans and results of measurements as one page that needs no network.
struct report_command {
    std::vector<std::filesystem::path> files;  ///< plans (YAML), results (JSON), or one directory of statistics
    std::filesystem::path output;              ///< empty: results are printed as tables
    call_options call;                         ///< the call whose timeline is shown
    bool force = false;                        ///< replaces a file that Terrace did not write

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
