#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace terrace::detail {

/// `terrace verify PLAN [--count N] [--whole]`: proves that a plan computes the right result on every rank.
struct verify_command {
    std::filesystem::path plan_file;
    std::optional<std::int64_t> count;  ///< of elements; nothing: those where plans go wrong
    bool whole = false;                 ///< every program as a whole, however long that takes

    /// @returns the exit code: 1 where a program is wrong
    int run() const;
};

}  // namespace terrace::detail
