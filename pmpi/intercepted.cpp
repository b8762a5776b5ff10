// The functions of MPI that programs call instead of MPI's own.

#include <dlfcn.h>

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

// The function of a row that blocks, and the one that starts the call.
#define TERRACE_FUNCTIONS(kind, blocks, by, starts, started_by, parameters, arguments, made)           \
    TERRACE_VISIBLE int blocks(parameters) {                                                           \
        return intercept({.what = call_kind::kind, made}, [&] { return by(arguments); });              \
    }                                                                                                  \
    TERRACE_PROFILED(blocks, TERRACE_LIST(parameters))                                                 \
    TERRACE_VISIBLE int starts(parameters, MPI_Request* request) {                                     \
        return intercept_start(                                                                        \
            {.what = call_kind::kind, made}, [&] { return started_by(arguments, request); }, request); \
    }                                                                                                  \
    TERRACE_PROFILED(starts, TERRACE_LIST(parameters, MPI_Request* request))

extern "C" {

#define N int
#define D int
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, made)                              \
    TERRACE_FUNCTIONS(name, MPI_##mpi, real.name, MPI_I##name, real.i##name, TERRACE_LIST(parameters), \
                      TERRACE_LIST(arguments), TERRACE_LIST(made))
#include "pmpi/calls.def"
#undef N
#undef D

#if MPI_VERSION >= 4  // the functions for counts above 2^31 - 1
#    define N MPI_Count
#    define D MPI_Aint
#    define TERRACE_PMPI_COUNTED_ONLY
#    define TERRACE_BEHIND(function)                                                                          \
        [] {                                                                                                  \
            static const auto found = reinterpret_cast<decltype(&function)>(dlsym(RTLD_NEXT, "P" #function)); \
            return found;                                                                                     \
        }()
#    define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, made)                                 \
        TERRACE_FUNCTIONS(name, MPI_##mpi##_c, TERRACE_BEHIND(MPI_##mpi##_c), MPI_I##name##_c,                \
                          TERRACE_BEHIND(MPI_I##name##_c), TERRACE_LIST(parameters), TERRACE_LIST(arguments), \
                          TERRACE_LIST(made))
#    include "pmpi/calls.def"
#    undef N
#    undef D
#endif

}  // extern "C"
#undef TERRACE_VISIBLE
