#pragma once

#include <cstdio>
#include <exception>

#include <mpi.h>

namespace terrace::detail::pmpi {

/// Passes an error of Terrace to the error handler of a communicator, as MPI does with its own. The error has its own
/// class, "Terrace", a code for each kind, and the text of the exception.
/// @returns the code, if the handler returns
int report_error(MPI_Comm comm, const std::exception& e) noexcept;

/// Runs an action in a function that MPI calls. If the action throws, writes a warning and calls no error handler.
/// @param what effect of an error, for the warning
template <class Action>
void or_warn(const char* what, const Action& action) noexcept {
    try {
        action();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "terrace: warn: %s: %s\n", what, e.what());
    }
}

}  // namespace terrace::detail::pmpi
