#pragma once

#include <atomic>
#include <string>

#include "pmpi/attached.hpp"

namespace terrace::detail::pmpi {

/// Returns the ranks of a communicator in MPI_COMM_WORLD: "world", or as in "0-3,8".
std::string label_of(const attached& on);

/// Keeps the rows of a communicator that is about to be freed, for the report.
void close_rows(const attached& on);

/// Whose rows a report has.
enum class rows_of { all_ranks, this_rank };

/// Writes the report to its file, if it has one, on rank 0 of MPI_COMM_WORLD; docs/reference/drop-in.md says what is in
/// it. With the rows of all ranks collective over MPI_COMM_WORLD if that has made a call, which all ranks know; else
/// local. Warns on rank 0 where the file cannot be written.
void write_report(rows_of whose);

/// Set where somebody asks for the report while the program runs.
extern std::atomic<bool> report_is_wanted;
/// Writes it on rank 0, of its own rows; nothing where several threads may be in MPI. Local.
void write_wanted_report() noexcept;

}  // namespace terrace::detail::pmpi
