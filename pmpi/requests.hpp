#pragma once

#include <mpi.h>

#include "pmpi/attached.hpp"
#include "pmpi/call.hpp"

namespace terrace::detail::pmpi {

/// Returns true if this MPI makes progress on external requests while it waits: Open MPI, and MPICH from 4.3 on, except
/// with the standard ABI or MPI_THREAD_MULTIPLE.
bool can_start() noexcept;

/// Starts a call as a request of MPI. @param on has `by`   @param r row of such calls   @returns MPI's code
int start_by_terrace(const call& c, attached& on, row& r, MPI_Request* request) noexcept;

/// Wait for started calls of a communicator: until all are complete, before it is freed; until Terrace has begun all,
/// before its next call.
void complete_started(attached& on);
void start_held_back(attached& on);

}  // namespace terrace::detail::pmpi
