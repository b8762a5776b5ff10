#pragma once

#include <terrace/communicator.hpp>

namespace terrace::detail {

/// An MPI communicator as the library gets it, which is linked to no MPI. <terrace/mpi.hpp>, which the program's own
/// MPI compiles, fills it in.
struct mpi_world {
    const char* library;  ///< "openmpi" or "mpich": the module that is loaded, terrace-LIBRARY.so
    const void* comm;     ///< of the MPI_Comm
    void (*function)();   ///< the program's MPI_Comm_rank: the module's must be the same
    /// Returns whether all ranks pass `mine` as true. Collective.
    bool (*on_all)(const void* comm, bool mine);
};

TERRACE_API communicator create_over_mpi(const mpi_world& world, const plan& p, const options& o);
TERRACE_API communicator create_over_mpi(const mpi_world& world, const options& o);
// With a device: nccl::create.
TERRACE_API communicator create_over_mpi(const mpi_world& world, const plan& p, int device, const options& o);
TERRACE_API communicator create_over_mpi(const mpi_world& world, int device, const options& o);

}  // namespace terrace::detail
