#pragma once

#include <filesystem>

#include "statistics/statistics_file.hpp"

namespace terrace::detail {

/// Renews the lines of a rank in a file of metrics, which is in Prometheus' text format and which the processes of a
/// node share. The lines are the sums over the communicators of the rank in this process, also over those that have
/// ended. Lines of processes that have gone are left out.
/// @param ends the communicator ends; with the rank's last one its lines go, and with the last lines the file
/// @throws input_error
void renew_metrics(const std::filesystem::path& file, const rank_statistics& r, bool ends);

}  // namespace terrace::detail
