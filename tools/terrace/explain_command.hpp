#pragma once

#include <filesystem>

#include "tools/terrace/arguments.hpp"

namespace terrace::detail {

/// `terrace explain PLAN [--bytes N] [--collective C] [--svg | --dot]`: why a plan does what it does, for one call.
struct explain_command {
    std::filesystem::path plan_file;
    call_options call;
    bool svg = false, dot = false;

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
