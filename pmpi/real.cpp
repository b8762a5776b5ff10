#include "pmpi/real.hpp"

#include <dlfcn.h>

namespace terrace::detail::pmpi {

namespace {

template <class Function>
void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

real_calls find_all() {
    real_calls found;
#define TERRACE_PMPI_CALL(name, mpi, traits, parameters, arguments, call) \
    find(found.name, "PMPI_" #mpi);                                       \
    find(found.i##name, "PMPI_I" #name);
#include "pmpi/calls.def"
    return found;
}

}  // namespace

const real_calls real = find_all();

thread_local int depth = 0;

}  // namespace terrace::detail::pmpi
