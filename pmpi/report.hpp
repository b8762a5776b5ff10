#pragma once

#include <atomic>
#include <string>

#include "pmpi/attached.hpp"

namespace terrace::detail::pmpi {

/// Returns the ranks of a communicator in MPI_COMM_WORLD, as "0-3,8"; "world"; or "intercommunicator".
std::string label_of(const attached& on);

/// Keeps the rows of a communicator that is about to be freed, for the report.
void close_rows(const attached& on);

/// The ranks whose rows a report has.
enum class rows_of { all_ranks, this_rank };

/// Writes the report to its file, if there is one, on rank 0 of MPI_COMM_WORLD; docs/reference/drop-in.md describes it.
/// With the rows of all ranks this is collective over MPI_COMM_WORLD, if that communicator has made a call, as all
/// ranks know; else local. Warns on rank 0 if the file cannot be written.
void write_report(rows_of whose);

/// True if the report is requested while the program runs.
extern std::atomic<bool> report_is_wanted;
/// Writes the report on rank 0, with its own rows; does nothing if several threads may be in MPI. Local.
void write_wanted_report() noexcept;

}  // namespace terrace::detail::pmpi
