#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace terrace::detail {

/// What a rank wrote to options::dump_file: what it waited for, and what it did last.
struct rank_dump {
    std::filesystem::path file;
    int rank = 0;
    std::string host;
    int pid = 0;
    double time_us = 0;              ///< when it was written
    std::vector<std::string> waits;  ///< a line each
    std::string last;                ///< the last event, in words; empty: none
    double last_us = 0;              ///< when that was
};

/// Reads all dumps in a directory, by rank: of each the latest. @throws input_error where there is none, or one is
/// damaged
std::map<int, rank_dump> read_dumps(const std::filesystem::path& directory);

/// Returns a few lines of text: the ranks that each rank waits for, the rank at the end of all these waits, and the
/// last instruction of that rank.
std::string verdict_of(const std::map<int, rank_dump>& dumps);

}  // namespace terrace::detail
