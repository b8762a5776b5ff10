#pragma once

#include <dlfcn.h>

namespace terrace::detail::test {

/// Returns MPI's function of this name, if the executable replaces it by its own function.
template <class Function>
Function* real_mpi(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace terrace::detail::test

#define TERRACE_REAL_MPI(name) terrace::detail::test::real_mpi<decltype(name)>(#name)
