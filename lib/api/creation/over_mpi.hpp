#pragma once

#include <string>
#include <string_view>

#include <terrace/mpi_world.hpp>

#include "transport/network.hpp"

namespace terrace::detail {

/// Returns all ranks of `world` and what connects them: MPI, by the module for it, and shared memory. Collective. Logs
/// a warning if the launcher started more processes than MPI knows of.
/// @throws transport_error on all ranks if one cannot load the module, with what to do; if MPI reports an error
/// @throws usage_error if MPI does not run, or is not the one that the program was compiled with
connection over_mpi(const mpi_world& world, const options& o);

/// "Open MPI v4.1.4": the MPI and its version, of what MPI_Get_library_version says.
std::string name_in(std::string version);

/// What is wrong where a launcher has started more processes than MPI_COMM_WORLD has, and what to do.
/// @param library as in mpi_world   @param running "Open MPI v4.1.4"
std::string lone_processes(int launched, int processes, std::string_view library, std::string_view running);

}  // namespace terrace::detail
