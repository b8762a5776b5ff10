#pragma once

#include <mpi.h>

#include "pmpi/call.hpp"
#include "pmpi/real.hpp"

namespace terrace::detail::pmpi {

/// MPI's own function with the program's arguments.
class mpi_call {
public:
    template <class Function>
    explicit mpi_call(const Function& f) noexcept
        : function_(&f), run_([](const void* at) { return (*static_cast<const Function*>(at))(); }) {}
    int operator()() const { return run_(function_); }

private:
    const void* function_;
    int (*run_)(const void*);
};

/// Runs or starts a call, by Terrace or by MPI. Returns MPI's code. @param request is set for a started call
int make_call(const call& c, mpi_call by_mpi, form is = form::blocking, MPI_Request* request = nullptr) noexcept;

/// Keeps the row of a persistent call, which MPI runs, until its request is freed.
void keep_persistent(const call& c, MPI_Request request) noexcept;
void forget_persistent(MPI_Request request) noexcept;

/// Starts a persistent request, whether of a collective or not.
int start_persistent(MPI_Request request, mpi_call by_mpi) noexcept;

/// Implement intercepted functions. Calls that Terrace itself makes pass to MPI.
template <class Function>
int intercept(const call& c, const Function& by_mpi) noexcept {
    return depth > 0 ? by_mpi() : make_call(c, mpi_call(by_mpi));
}
template <class Function>
int intercept_start(const call& c, const Function& by_mpi, MPI_Request* request) noexcept {
    return depth > 0 ? by_mpi() : make_call(c, mpi_call(by_mpi), form::started, request);
}

}  // namespace terrace::detail::pmpi
