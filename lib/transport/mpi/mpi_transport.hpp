#pragma once

#include <memory>

#include <mpi.h>

#include <terrace/options.hpp>

#include "executor/transport.hpp"
#include "base/hierarchy.hpp"

namespace terrace {

/// Point to point over a communicator of its own that holds the ranks of `world` in the plan's order.
/// @throws plan_error where the machine's nodes are not the plan's (on every rank), transport_error
std::unique_ptr<transport> make_mpi_transport(MPI_Comm world, const hierarchy& machine, options::placement place);

/// rank of the caller in `world`
int mpi_rank(MPI_Comm world);

}  // namespace terrace
