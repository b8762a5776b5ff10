#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::detail {

/// `terrace run -n RANKS -- PROGRAM ...`: prints and runs the line of mpirun that starts an MPI program under the
/// drop-in.
struct run_command {
    int ranks = 0;                     ///< 0: what the launcher makes of its own options
    std::string mpi;                   ///< of known_mpis.hpp; empty: the one that the program is linked to
    std::filesystem::path plan;        ///< empty: as TERRACE_PLAN says
    std::filesystem::path report;      ///< file to write; empty: as TERRACE_PMPI_REPORT says
    std::string mode;                  ///< of TERRACE_PMPI; empty: as it is
    std::string launcher;              ///< more arguments of mpirun, separated by blanks
    bool prints = false;               ///< the line, and runs nothing
    std::vector<std::string> program;  ///< with its arguments

    /// @returns the exit code, where nothing was run   @throws usage_error if the MPI or the drop-in is unknown
    int run() const;
};

/// Returns which of known_mpis.hpp it is by the libraries that a program's file names; empty: none or several.
std::string mpi_named_in(std::string_view file);

/// Returns a line that a POSIX shell reads as these words.
std::string shell_line(std::span<const std::string> words);

}  // namespace terrace::detail
