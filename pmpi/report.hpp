#pragma once

#include <string>

#include "pmpi/attached.hpp"

namespace terrace::detail::pmpi {

/// Returns the ranks of a communicator in MPI_COMM_WORLD: "world", or as in "0-3,8".
std::string label_of(const attached& on);

/// Keeps the rows of a communicator that is about to be freed, for the report.
void close_rows(const attached& on);

/// Writes the report of all ranks to a file, on rank 0 of MPI_COMM_WORLD; docs/reference/drop-in.md says what is in it.
/// Collective over MPI_COMM_WORLD if that has made a call, which all ranks know; else local, and of rank 0 alone.
/// @returns false on rank 0 where the file cannot be written
bool write_report(const std::string& file);

}  // namespace terrace::detail::pmpi
