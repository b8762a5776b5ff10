#pragma once

#include <cstdio>
#include <exception>

#include <mpi.h>

namespace terrace::detail::pmpi {

/// Hands an error of Terrace's to the error handler of a communicator, as MPI does with its own. The error has a class
/// of its own, "Terrace", a code for each kind, and the text of the exception.
/// @returns the code, where the handler returns
int report_error(MPI_Comm comm, const std::exception& e) noexcept;

/// Runs what may throw in a function that MPI calls, where no communicator's error handler is asked.
/// @param what an error means, in the warning
template <class Action>
void or_warn(const char* what, const Action& action) noexcept {
    try {
        action();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "terrace: warn: %s: %s\n", what, e.what());
    }
}

}  // namespace terrace::detail::pmpi
