#pragma once

#include <string>
#include <string_view>

#include <terrace/mpi_world.hpp>

#include "transport/network.hpp"

namespace terrace::detail {

/// Connects all ranks of `world` by MPI, through the module for it, and by shared memory. Collective. Logs a warning if
/// the launcher started more processes than MPI has.
/// @throws transport_error on all ranks if one cannot load the module, with the remedy; also if MPI reports an error
/// @throws usage_error if MPI does not run, or the program was compiled with another MPI
connection over_mpi(const mpi_world& world, const options& o);

/// Returns the MPI and its version, as in "Open MPI v4.1.4". @param version text of MPI_Get_library_version
std::string name_in(std::string version);

/// Returns the warning if a launcher has started more processes than MPI_COMM_WORLD has, with the remedy.
/// @param library as in mpi_world   @param running "Open MPI v4.1.4"
std::string lone_processes(int launched, int processes, std::string_view library, std::string_view running);

}  // namespace terrace::detail
