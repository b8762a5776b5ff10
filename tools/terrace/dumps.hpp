#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace terrace::detail {

/// A file that a rank wrote to options::dump_file: its waits and its last event.
struct rank_dump {
    std::filesystem::path file;
    int rank = 0;
    std::string host;
    int pid = 0;
    double time_us = 0;              ///< time of the dump
    std::vector<std::string> waits;  ///< one line each
    std::string last;                ///< the last event, in words; empty: none
    double last_us = 0;              ///< time of the last event
};

/// Reads the latest dump of each rank in a directory. @throws input_error if there is no dump, or if one is damaged
std::map<int, rank_dump> read_dumps(const std::filesystem::path& directory);

/// Returns text: the ranks at the end of all waits, each with the number of waiting ranks and its last instruction;
/// then the waits and the last instruction of every rank.
std::string verdict_of(const std::map<int, rank_dump>& dumps);

}  // namespace terrace::detail
