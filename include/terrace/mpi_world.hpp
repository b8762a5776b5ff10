#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <terrace/communicator.hpp>

namespace terrace::detail {

/// An MPI communicator as passed to the library, which is not linked to any MPI. <terrace/mpi.hpp>, compiled with the
/// program's own MPI, fills it in. The functions are called in this order: each is safe if the one before succeeded.
struct mpi_world {
    const char* library;  ///< "openmpi", "mpich" or "mpiabi", by <mpi.h>; names the module to load, terrace-LIBRARY.so
    const void* comm;     ///< address of the MPI_Comm
    std::function<std::string()> version;  ///< returns the text of MPI_Get_library_version: "Open MPI v4.1.4, ..."
    std::function<int()> processes;        ///< returns the size of MPI_COMM_WORLD; 0: MPI does not run
    /// Returns true if all ranks of `comm` pass true. Collective.
    std::function<bool(const void* comm, bool mine)> on_all;
    void (*function)();  ///< address of the program's MPI_Comm_rank; the module's must be the same
};

/// Implements mpi::create and nccl::create (with a device). @param p null: the plan in `o.plan_file` or one for the job
TERRACE_API communicator create_over_mpi(const mpi_world& world, const plan* p, const options& o);
TERRACE_API communicator create_over_mpi(const mpi_world& world, const plan* p, int device, const options& o);

/// Returns "terrace: ranks 0-2: what\n", a line for each different text, in the order of its first rank. Names no ranks
/// if the job has only one.
/// @param said the ranks that failed, with their texts   @param ranks number of ranks of the job
TERRACE_API std::string error_lines(std::string_view program, std::vector<std::pair<int, std::string>> said, int ranks);

}  // namespace terrace::detail
