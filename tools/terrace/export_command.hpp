#pragma once

#include <filesystem>
#include <string>

#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

/// `terrace export PLAN --to FORMAT [-o FILE]`: writes a plan for other programs.
struct export_command {
    std::filesystem::path plan_file;
    std::string format;            ///< the name of an export_format
    export_options options;        ///< what the format needs beside
    std::filesystem::path output;  ///< a file; empty: standard output
    bool force = false;            ///< replaces what Terrace did not write

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
