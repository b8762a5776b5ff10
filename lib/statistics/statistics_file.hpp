#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <terrace/statistics.hpp>

namespace terrace::detail {

/// A change of the plan: calls run by another plan from this one on.
struct changed_plan {
    std::int64_t from_call = 0;
    std::string why{};
};

/// The statistics of one rank of a communicator, as in a file. Ranks are numbers in the whole job.
struct rank_statistics {
    std::string communicator{};  ///< name, equal on its ranks and different from that of any other communicator
    std::string host{}, plan{};
    int rank = 0;
    int size = 0;  ///< ranks of the communicator
    statistics counted{};
    std::vector<changed_plan> changes{};  ///< known on rank 0 of the plan only
};

/// Returns the statistics as JSON.
std::string text_of(const rank_statistics& r);

/// Writes the statistics to DIRECTORY/COMMUNICATOR.RANK.json, replacing an older file. @throws input_error
void write_statistics(const std::filesystem::path& directory, const rank_statistics& r);

/// Reads all files (*.json) of a directory. @throws input_error with the place of an error, and if there is no file
std::vector<rank_statistics> read_statistics(const std::filesystem::path& directory);

}  // namespace terrace::detail
