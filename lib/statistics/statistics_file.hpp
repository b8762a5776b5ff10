#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <terrace/statistics.hpp>

namespace terrace::detail {

/// Calls run by another plan from one on.
struct changed_plan {
    std::int64_t from_call = 0;
    std::string why{};
};

/// The statistics of one rank of a communicator, as a file holds them. Ranks are those of the whole job.
struct rank_statistics {
    std::string communicator{};  ///< equal on its ranks, and of no other one
    std::string host{}, plan{};
    int rank = 0;
    int size = 0;  ///< of the communicator
    statistics counted{};
    std::vector<changed_plan> changes{};  ///< as rank 0 of the plan knows them
};

/// Returns them as JSON.
std::string text_of(const rank_statistics& r);

/// Writes them to DIRECTORY/COMMUNICATOR.RANK.json, in place of what is there. @throws input_error
void write_statistics(const std::filesystem::path& directory, const rank_statistics& r);

/// Reads all files of a directory. @throws input_error with the place of what is wrong, and where there is none
std::vector<rank_statistics> read_statistics(const std::filesystem::path& directory);

}  // namespace terrace::detail
