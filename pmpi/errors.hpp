#pragma once

#include <exception>

#include <mpi.h>

namespace terrace::detail::pmpi {

/// Hands an error of Terrace's to the error handler of a communicator, as MPI does with its own. The error has a class
/// of its own, "Terrace", a code for each kind, and the text of the exception.
/// @returns the code, where the handler returns
int report_error(MPI_Comm comm, const std::exception& e) noexcept;

}  // namespace terrace::detail::pmpi
