#pragma once

#include <terrace/export.hpp>

#include <mpi.h>

#include <terrace/mpi_library.h>

#ifndef TERRACE_MPI_LIBRARY
#    error "<terrace/mpi.hpp>: this <mpi.h> is neither Open MPI's nor MPICH's, and not of the standard ABI"
#elif defined(OMPI_MAJOR_VERSION) && !TERRACE_HAS_OPENMPI
#    error "<terrace/mpi.hpp>: this <mpi.h> is Open MPI's, which Terrace has no module for: compile with mpicxx.mpich"
#elif defined(MPICH_VERSION) && !TERRACE_HAS_MPICH
#    error "<terrace/mpi.hpp>: this <mpi.h> is MPICH's, which Terrace has no module for: compile with mpicxx.openmpi"
#elif !defined(OMPI_MAJOR_VERSION) && !defined(MPICH_VERSION) && !TERRACE_HAS_MPIABI
#    error \
        "<terrace/mpi.hpp>: this <mpi.h> is of the standard ABI, which Terrace has no module for: compile with mpicxx"
#endif

#include <terrace/communicator.hpp>
#include <terrace/mpi_error.hpp>
#include <terrace/mpi_world.hpp>

// The library is not linked to any MPI. The program compiles the code below, with its own MPI.
namespace terrace::detail {

inline int mpi_processes() {
    int size = 0;
    if (mpi_is_up()) MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

inline bool on_all_ranks_of(const void* comm, bool mine) {
    int all = mine;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): MPI_IN_PLACE is such a cast
    PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, *static_cast<const MPI_Comm*>(comm));
    return all != 0;
}

/// Returns the description of `world` for the library. @param world must outlive the result
inline mpi_world world_of(const MPI_Comm& world) {
    return {TERRACE_MPI_LIBRARY, &world,           &version_of_mpi,
            &mpi_processes,      &on_all_ranks_of, reinterpret_cast<void (*)()>(&MPI_Comm_rank)};
}

}  // namespace terrace::detail

namespace terrace::mpi {

/// Creates a communicator of all ranks of `world`, which it duplicates. MPI must outlive the communicator. Collective
/// over `world`. All ranks must pass the same plan and run the same version of Terrace; creation compares both. Each
/// machine node must have as many ranks as in the plan. If the plan names its hosts, each node takes the place of its
/// host in the plan, regardless of the order of ranks. Otherwise nodes take places in the order of their lowest ranks.
/// The first call loads the module for the program's MPI, for example terrace-openmpi.so.
/// @throws plan_error on every rank if the plan does not fit `world` or differs between ranks, naming the field and
/// both values, or the host
/// @throws input_error if the plan's file names an unknown algorithm, or one that does not support its mode, with line
/// and column
/// @throws usage_error before MPI_Init, and with another MPI than the program was compiled with; on every rank if a
/// rank cannot begin the trace or start its progress thread, naming the rank
/// @throws transport_error if MPI reports an error; on every rank if the module for MPI is missing on one
inline communicator create(MPI_Comm world, const plan& p, const options& o = {}) {
    return detail::create_over_mpi(detail::world_of(world), &p, o);
}

/// Creates the same with the plan in `o.plan_file`, which every rank reads. If that is empty on all ranks, rank 0 makes
/// a plan for the job. Each node is described once, with the cores that its ranks are bound to
/// (docs/reference/environment.md).
/// @throws input_error on a rank that cannot read the file, and plan_error on the others, naming that rank; and as
/// above
inline communicator create(MPI_Comm world, const options& o = {}) {
    return detail::create_over_mpi(detail::world_of(world), nullptr, o);
}

}  // namespace terrace::mpi
