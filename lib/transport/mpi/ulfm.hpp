#pragma once

#include <mpi.h>

/// What MPI itself does about ranks that have died (user-level failure mitigation): in Open MPI 5, under `mpirun
/// --with-ft ulfm`. Looked for when it is used, since one library serves several versions of MPI.
namespace terrace::detail::ulfm {

/// Whether this MPI has it.
bool is_there() noexcept;

/// Whether an error says that a rank of the communicator has died. Who it is, liveness shows.
bool is_of_a_death(int code);

/// Lets receives from any rank work again after a death. Local.
void acknowledge_deaths(MPI_Comm comm) noexcept;

/// Makes a communicator of all ranks that have not died, in their order. Collective over these.
/// @returns MPI's code
int shrink(MPI_Comm comm, MPI_Comm* made) noexcept;

}  // namespace terrace::detail::ulfm
