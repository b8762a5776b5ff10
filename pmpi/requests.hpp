#pragma once

#include <mpi.h>

#include "pmpi/attached.hpp"
#include "pmpi/call.hpp"

namespace terrace::detail::pmpi {

/// True if this MPI moves requests of others along wherever it waits: Open MPI, and MPICH from 4.3 on, but not by the
/// standard ABI or where many threads call it.
bool can_start() noexcept;

/// Starts a call as a request of MPI's. @param on has a communicator   @param r of such calls   @returns MPI's code
int start_by_terrace(const call& c, attached& on, row& r, MPI_Request* request) noexcept;

/// Wait for calls on a communicator: for their end, before it is freed; until Terrace has started them, before it is
/// given another.
void complete_started(attached& on);
void start_held_back(attached& on);

}  // namespace terrace::detail::pmpi
