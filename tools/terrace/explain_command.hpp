#pragma once

#include <filesystem>
#include <optional>

#include "tools/terrace/arguments.hpp"

namespace terrace::detail {

/// `terrace explain PLAN [--bytes N] [--collective C] [--svg | --dot | --rank R | --connections]`: why a plan does
/// what it does, for one call; or the program of one rank; or how many others each rank talks to.
struct explain_command {
    std::filesystem::path plan_file;
    call_options call;
    bool svg = false, dot = false;
    std::optional<int> rank;  ///< whose program is printed
    bool connections = false;

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
