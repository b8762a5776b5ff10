// MPI's functions for counts above 2^31 - 1.

#include <dlfcn.h>

#include "pmpi/dispatch.hpp"

#if MPI_VERSION >= 4

using namespace terrace::detail::pmpi;

namespace {

template <class Function>
Function find_large(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#    define N MPI_Count
#    define D MPI_Aint
#    define TERRACE_VISIBLE __attribute__((visibility("default")))

#    define TERRACE_PMPI_COUNTED_ONLY

extern "C" {
#    define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, made)                          \
        TERRACE_VISIBLE int MPI_##mpi##_c(parameters) {                                                \
            static const auto by_mpi = find_large<decltype(&MPI_##mpi##_c)>("PMPI_" #mpi "_c");        \
            return intercept({.what = call_kind::name, made}, [&] { return by_mpi(arguments); });      \
        }                                                                                              \
        TERRACE_VISIBLE int MPI_I##name##_c(parameters, MPI_Request* request) {                        \
            static const auto by_mpi = find_large<decltype(&MPI_I##name##_c)>("PMPI_I" #name "_c");    \
            return intercept_start(                                                                    \
                {.what = call_kind::name, made}, [&] { return by_mpi(arguments, request); }, request); \
        }
#    include "pmpi/calls.def"
}
#    undef N
#    undef D
#    undef TERRACE_VISIBLE

#endif
