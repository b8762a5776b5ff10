#pragma once

#include <filesystem>
#include <optional>

#include "tools/terrace/arguments.hpp"

namespace terrace::detail {

/// `terrace explain PLAN [--bytes N] [--collective C] [--svg | --dot | --rank R]`: why a plan does what it does, for
/// one call; or the program of one rank.
struct explain_command {
    std::filesystem::path plan_file;
    call_options call;
    bool svg = false, dot = false;
    std::optional<int> rank;  ///< whose program is printed

    /// @returns the exit code
    int run() const;
};

}  // namespace terrace::detail
