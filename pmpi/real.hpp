#pragma once

#include <mpi.h>

#include "pmpi/call.hpp"

namespace terrace::detail::pmpi {

/// MPI's own functions behind those that are intercepted. Open MPI's Fortran library calls PMPI_*, so these names are
/// intercepted as well. The drop-in therefore calls MPI's collectives only through this table.
struct real_calls {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) \
    decltype(&MPI_##mpi) name = nullptr;                                  \
    decltype(&MPI_I##name) i##name = nullptr;
#include "pmpi/calls.def"
};

/// Set when the library is loaded.
extern const real_calls real;

/// Above 0 while this thread is in the drop-in: MPI calls that Terrace itself makes are not intercepted. The model of
/// thread-local storage suits libraries that are loaded when the program starts.
extern thread_local int depth __attribute__((tls_model("initial-exec")));

class own_calls {
public:
    own_calls() noexcept { ++depth; }
    own_calls(const own_calls&) = delete;
    own_calls& operator=(const own_calls&) = delete;
    ~own_calls() { --depth; }
};

}  // namespace terrace::detail::pmpi
