#pragma once

#include <mpi.h>

#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// Throws transport_error if an MPI call of the bench failed.
void check(int code, const char* call);

/// Returns the communicator of all ranks, for MPI calls. @throws usage_error if the ranks have no MPI
MPI_Comm comm_of(const world& w);

}  // namespace terrace::detail::bench
