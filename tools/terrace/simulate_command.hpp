#pragma once

#include <filesystem>
#include <string>

#include "tools/terrace/arguments.hpp"

namespace terrace::detail {

/// `terrace simulate PLAN --bytes N [--trace FILE] [--svg FILE]`: a call of all ranks over the machine's links.
struct simulate_command {
    std::filesystem::path plan_file;
    call_options call;
    std::string origin;                ///< of a baseline to run in place of the plan's rules; empty: those
    std::filesystem::path trace, svg;  ///< files to write; empty: none
    bool reproducible = false;         ///< as with options::reproducible
    bool json = false;
    bool force = false;  ///< replaces files that Terrace did not write

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
