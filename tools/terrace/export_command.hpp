#pragma once

#include <filesystem>
#include <string>

#include "tools/terrace/arguments.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

/// `terrace export PLAN --to FORMAT [-o FILE]`: writes a plan, or a call of it, for other programs.
struct export_command {
    std::filesystem::path plan_file;
    std::string format;            ///< the name of an export_format
    export_options options;        ///< what the format needs beside
    call_options call;             ///< of formats of calls
    std::filesystem::path output;  ///< a file; empty: standard output
    bool force = false;            ///< replaces what Terrace did not write

    /// @returns the exit code
    int run() const;

private:
    int write_call(const export_format& to) const;
};

}  // namespace terrace::detail
