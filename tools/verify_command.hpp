#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace terrace {

/// `terrace verify PLAN [--count N] [--whole]`: proves that a plan computes the right result on every rank.
struct verify_command {
    std::filesystem::path plan_file;
    std::optional<std::int64_t> count;
    bool whole = false;

    /// @returns the exit code: 0 or 1: a program is wrong
    int run() const;
};

}  // namespace terrace
