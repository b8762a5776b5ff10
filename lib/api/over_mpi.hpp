#pragma once

#include <terrace/mpi_world.hpp>

#include "transport/network.hpp"

namespace terrace::detail {

/// Returns all ranks of `world` and what connects them: MPI, by the module for it, and shared memory. Collective.
/// @throws transport_error on all ranks if one cannot load the module, with what to do, or if MPI reports an error
connection over_mpi(const mpi_world& world, const options& o);

}  // namespace terrace::detail
