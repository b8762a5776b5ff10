#pragma once

#include <mpi.h>

#include "pmpi/call.hpp"

namespace terrace::detail::pmpi {

/// MPI's own functions behind those that are intercepted. Open MPI's Fortran library calls PMPI_*, so that these names
/// are intercepted as well: the drop-in calls MPI's collectives through this table alone.
struct real_calls {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) \
    decltype(&MPI_##mpi) name = nullptr;                                  \
    decltype(&MPI_I##name) i##name = nullptr;
#include "pmpi/calls.def"
};

/// Set when the library is loaded.
extern const real_calls real;

/// True while this thread is in the drop-in: what Terrace itself calls of MPI is not intercepted.
/// The model of thread-local storage suits libraries that are there from the start.
extern thread_local int depth __attribute__((tls_model("initial-exec")));

class own_calls {
public:
    own_calls() noexcept { ++depth; }
    own_calls(const own_calls&) = delete;
    own_calls& operator=(const own_calls&) = delete;
    ~own_calls() { --depth; }
};

}  // namespace terrace::detail::pmpi
