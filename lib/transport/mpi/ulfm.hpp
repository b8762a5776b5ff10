#pragma once

#include <mpi.h>

/// MPI's own support after ranks have died (user-level failure mitigation): in Open MPI 5, under `mpirun --with-ft
/// ulfm`. Its functions are looked up at run time, since one library serves several versions of MPI.
namespace terrace::detail::ulfm {

/// Returns true if this MPI has ULFM.
bool is_there() noexcept;

/// Returns true if an error shows that a rank of the communicator has died. liveness shows which rank.
bool is_of_a_death(int code);

/// Enables receives from any rank again after a death. Local.
void acknowledge_deaths(MPI_Comm comm) noexcept;

/// Makes a communicator of all ranks that have not died, in their order. Collective over these.
/// @returns MPI's code
int shrink(MPI_Comm comm, MPI_Comm* made) noexcept;

}  // namespace terrace::detail::ulfm
