#pragma once

#include <filesystem>

namespace terrace::detail {

/// `terrace doctor`: what would trip a run on this machine, each with its fix.
struct doctor_command {
    std::filesystem::path plan_file;  ///< of jobs here: what it needs of /dev/shm, and whose NICs; empty: not known

    std::filesystem::path dumps;   ///< a directory of dumps, to read instead; empty: none
    std::filesystem::path bundle;  ///< the archive to write for a report of a problem; empty: none, "-": printed
    bool force = false;            ///< replaces a file that Terrace did not write

    /// @returns the exit code: 1 where something would
    int run() const;
};

}  // namespace terrace::detail
