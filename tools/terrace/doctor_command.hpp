#pragma once

#include <filesystem>

namespace terrace::detail {

/// `terrace doctor`: what would trip a run on this machine, each with its fix.
struct doctor_command {
    std::filesystem::path plan_file;  ///< of jobs here: what it needs of /dev/shm, and whose NICs; empty: not known

    std::filesystem::path dumps;  ///< a directory of dumps, to read instead; empty: none

    /// @returns the exit code: 1 where something would
    int run() const;
};

}  // namespace terrace::detail
