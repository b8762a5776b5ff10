// The module: the transport over the MPI that this is compiled with.

#include "transport/mpi/mpi_module.hpp"

#include <mpi.h>

#include <terrace/version.hpp>

#include "transport/mpi/mpi_network.hpp"

using namespace terrace;
using namespace terrace::detail;

extern "C" __attribute__((visibility("default"))) const mpi_module terrace_mpi_module{
    .head = {.version = header_version, .bytes = sizeof(mpi_module)},
    .join = [](const void* comm, int reserve) { return join_mpi(*static_cast<const MPI_Comm*>(comm), reserve); },
    .function = reinterpret_cast<void (*)()>(&MPI_Comm_rank),
};
