// The MPI functions that programs call instead of MPI's own.

#include <dlfcn.h>

#include "pmpi/dispatch.hpp"

using namespace terrace::detail::pmpi;

#define TERRACE_VISIBLE __attribute__((visibility("default")))

// Open MPI's Fortran library calls PMPI_*, MPICH's calls MPI_*.
#ifdef OMPI_MAJOR_VERSION
#    define TERRACE_PROFILED(function, ...) \
        TERRACE_VISIBLE int P##function(__VA_ARGS__) __attribute__((alias(#function)));
#else
#    define TERRACE_PROFILED(function, ...)
#endif

// Returns MPI's own function behind an intercepted one.
#define TERRACE_BEHIND(function)                                    \
    [] {                                                            \
        static const auto found = behind(&function, "P" #function); \
        return found;                                               \
    }()

namespace {

// Replaces a function that this MPI lacks; Open MPI 4, for example, has no persistent collectives.
template <class... Arguments>
int missing(Arguments...) {
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

template <class... Arguments>
auto behind(int (*)(Arguments...), const char* name) {
    void* const found = dlsym(RTLD_NEXT, name);
    return found != nullptr ? reinterpret_cast<int (*)(Arguments...)>(found) : &missing<Arguments...>;
}

}  // namespace

// Defines the functions of a row: the blocking call, the started call, and the one that makes a persistent request.
#define TERRACE_FUNCTIONS(kind, blocks, by, starts, started_by, keeps, parameters, arguments, made)    \
    TERRACE_VISIBLE int blocks(parameters) {                                                           \
        return intercept({.what = call_kind::kind, made}, [&] { return by(arguments); });              \
    }                                                                                                  \
    TERRACE_PROFILED(blocks, parameters)                                                               \
    TERRACE_VISIBLE int starts(parameters, MPI_Request* request) {                                     \
        return intercept_start(                                                                        \
            {.what = call_kind::kind, made}, [&] { return started_by(arguments, request); }, request); \
    }                                                                                                  \
    TERRACE_PROFILED(starts, parameters, MPI_Request* request)                                         \
    TERRACE_VISIBLE int keeps(parameters, MPI_Info info, MPI_Request* request) {                       \
        const int code = TERRACE_BEHIND(keeps)(arguments, info, request);                              \
        if (code == MPI_SUCCESS) keep_persistent({.what = call_kind::kind, made}, *request);           \
        return code;                                                                                   \
    }                                                                                                  \
    TERRACE_PROFILED(keeps, parameters, MPI_Info info, MPI_Request* request)

extern "C" {

#define N int
#define D int
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, made)                      \
    TERRACE_FUNCTIONS(name, MPI_##mpi, real.name, MPI_I##name, real.i##name, MPI_##mpi##_init, \
                      TERRACE_LIST(parameters), TERRACE_LIST(arguments), TERRACE_LIST(made))
#include "pmpi/calls.def"
#undef N
#undef D

#if MPI_VERSION >= 4  // the functions for counts above 2^31 - 1
#    define N MPI_Count
#    define D MPI_Aint
#    define TERRACE_PMPI_COUNTED_ONLY
#    define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, made)                            \
        TERRACE_FUNCTIONS(name, MPI_##mpi##_c, TERRACE_BEHIND(MPI_##mpi##_c), MPI_I##name##_c,           \
                          TERRACE_BEHIND(MPI_I##name##_c), MPI_##mpi##_init_c, TERRACE_LIST(parameters), \
                          TERRACE_LIST(arguments), TERRACE_LIST(made))
#    include "pmpi/calls.def"
#    undef N
#    undef D
#endif

TERRACE_VISIBLE int MPI_Start(MPI_Request* request) {
    return start_persistent(*request, mpi_call([&] { return TERRACE_BEHIND(MPI_Start)(request); }));
}
TERRACE_PROFILED(MPI_Start, MPI_Request* request)

// Starts requests one by one, as MPI allows, to measure the time of each.
TERRACE_VISIBLE int MPI_Startall(int count, MPI_Request requests[]) {
    int code = MPI_SUCCESS;
    for (int i = 0; i < count && code == MPI_SUCCESS; ++i) code = MPI_Start(&requests[i]);
    return code;
}
TERRACE_PROFILED(MPI_Startall, int count, MPI_Request requests[])

TERRACE_VISIBLE int MPI_Request_free(MPI_Request* request) {
    forget_persistent(*request);
    return TERRACE_BEHIND(MPI_Request_free)(request);
}
TERRACE_PROFILED(MPI_Request_free, MPI_Request* request)

}  // extern "C"
#undef TERRACE_VISIBLE
