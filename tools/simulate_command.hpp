#pragma once

#include <filesystem>
#include <string>

#include "tools/arguments.hpp"

namespace terrace {

/// `terrace simulate PLAN --bytes N [--trace FILE] [--svg FILE]`: a call of all ranks over the machine's links.
struct simulate_command {
    std::filesystem::path plan_file;
    call_options call;
    std::string origin;
    std::string trace, svg;
    std::string burst = "0";
    bool json = false;

    /// @returns the exit code: 0
    int run() const;
};

}  // namespace terrace
