#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <terrace/communicator.hpp>

namespace terrace::detail {

/// An MPI communicator as the library gets it, which is linked to no MPI. <terrace/mpi.hpp>, which the program's own
/// MPI compiles, fills it in. The functions are called in this order: each is safe once the one before has said so.
struct mpi_world {
    const char* library;  ///< "openmpi", "mpich" or "mpiabi", by <mpi.h>: the module that is loaded, terrace-LIBRARY.so
    const void* comm;     ///< of the MPI_Comm
    std::function<std::string()> version;  ///< "Open MPI v4.1.4, ...": what the MPI that is linked says of itself
    std::function<int()> processes;        ///< in MPI_COMM_WORLD; 0 before MPI_Init and after MPI_Finalize
    /// Returns whether all ranks pass `mine` as true. Collective.
    std::function<bool(const void* comm, bool mine)> on_all;
    void (*function)();  ///< the program's MPI_Comm_rank: the module's must be the same
};

/// mpi::create; with a device nccl::create. @param p null: the plan in `o.plan_file`, or one made for the job
TERRACE_API communicator create_over_mpi(const mpi_world& world, const plan* p, const options& o);
TERRACE_API communicator create_over_mpi(const mpi_world& world, const plan* p, int device, const options& o);

/// "terrace: ranks 0-2: what\n", a line for each different text, in the order of its first rank. Names no ranks where
/// there is only one.
/// @param said which ranks failed, and what of   @param ranks of the job
TERRACE_API std::string error_lines(std::string_view program, std::vector<std::pair<int, std::string>> said, int ranks);

}  // namespace terrace::detail
