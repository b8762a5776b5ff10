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

/// Returns what a report of a problem needs: the build, this system and machine, the plan, the environment and the last
/// dumps. A text that cannot be made says why.
/// @param findings returns what `terrace doctor` prints @param plan the plan of the jobs; empty: the one TERRACE_PLAN
/// names
/// @param dumps the directory with dumps; empty: the one TERRACE_DUMP names
std::vector<bundle_file> bundle_files(const std::function<std::string()>& findings, std::filesystem::path plan,
                                      std::filesystem::path dumps);

/// Returns files as an archive in the format of tar (POSIX ustar). Names have at most 100 bytes.
std::string tar_archive(std::span<const bundle_file> files);

}  // namespace terrace::detail
