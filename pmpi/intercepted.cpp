// The functions of MPI that programs call instead of MPI's own.

#include "pmpi/dispatch.hpp"

using namespace terrace::detail::pmpi;

#define TERRACE_VISIBLE __attribute__((visibility("default")))

// Open MPI's Fortran library calls PMPI_*, MPICH's calls MPI_*.
#ifdef OMPI_MAJOR_VERSION
#    define TERRACE_PROFILED(function, parameters) \
        TERRACE_VISIBLE int P##function(parameters) __attribute__((alias(#function)));
#else
#    define TERRACE_PROFILED(function, parameters)
#endif

#define N int
#define D int

extern "C" {
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, made)                                \
    TERRACE_VISIBLE int MPI_##mpi(parameters) {                                                          \
        return intercept({.what = call_kind::name, made}, [&] { return real.name(arguments); });         \
    }                                                                                                    \
    TERRACE_PROFILED(MPI_##mpi, TERRACE_LIST(parameters))                                                \
    TERRACE_VISIBLE int MPI_I##name(parameters, MPI_Request* request) {                                  \
        return intercept_start(                                                                          \
            {.what = call_kind::name, made}, [&] { return real.i##name(arguments, request); }, request); \
    }                                                                                                    \
    TERRACE_PROFILED(MPI_I##name, TERRACE_LIST(parameters, MPI_Request* request))
#include "pmpi/calls.def"
}
#undef N
#undef D
#undef TERRACE_VISIBLE
