#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace terrace::detail {

/// A file of a bundle.
struct bundle_file {
    std::string name;
    std::string text;
};

/// Returns the files for a report of a problem: the build, this system and machine, the plan, the environment and the
/// last dumps. If a text cannot be made, its file contains the reason.
/// @param findings returns the output of `terrace doctor` @param plan plan of the jobs; empty: the value of
/// TERRACE_PLAN
/// @param dumps directory with dumps; empty: that of TERRACE_DUMP
std::vector<bundle_file> bundle_files(const std::function<std::string()>& findings, std::filesystem::path plan,
                                      std::filesystem::path dumps);

/// Returns files as an archive in the format of tar (POSIX ustar). Names have at most 100 bytes.
std::string tar_archive(std::span<const bundle_file> files);

}  // namespace terrace::detail
