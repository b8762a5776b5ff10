#include "pmpi/real.hpp"

#include <dlfcn.h>

namespace terrace::detail::pmpi {

const real_calls real = [] {
    real_calls found;
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call)                \
    found.name = reinterpret_cast<decltype(found.name)>(dlsym(RTLD_NEXT, "PMPI_" #mpi)); \
    found.i##name = reinterpret_cast<decltype(found.i##name)>(dlsym(RTLD_NEXT, "PMPI_I" #name));
#include "pmpi/calls.def"
    return found;
}();

thread_local int depth = 0;

}  // namespace terrace::detail::pmpi
