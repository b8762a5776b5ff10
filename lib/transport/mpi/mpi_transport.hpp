#pragma once

#include <memory>

#include <mpi.h>

#include "executor/agreement.hpp"
#include "executor/transport.hpp"

namespace terrace {

/// Point to point over a communicator of its own that holds the ranks of `world`. Collective.
/// @param mine what all ranks must have in common; compared before anything else, so that they all go on alike
/// @throws plan_error where the ranks differ (on every rank), transport_error
std::unique_ptr<transport> make_mpi_transport(MPI_Comm world, const identity& mine);

/// What MPI itself says, asked now: whether messages may lie in memory of a GPU. No MPI that cannot be asked does.
bool mpi_takes_device_memory() noexcept;

/// rank of the caller in `world`
int mpi_rank(MPI_Comm world);

}  // namespace terrace
