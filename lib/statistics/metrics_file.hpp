#pragma once

#include <filesystem>

#include "statistics/statistics_file.hpp"

namespace terrace::detail {

/// Replaces the lines of a rank in a metrics file in Prometheus' text format, which the processes of a node share. The
/// lines are sums over the communicators of the rank in this process, including those that have ended. Lines of
/// processes that no longer exist are removed.
/// @param ends the communicator ends; with the rank's last one its lines are removed, and with the last lines the file
/// @throws input_error
void renew_metrics(const std::filesystem::path& file, const rank_statistics& r, bool ends);

}  // namespace terrace::detail
