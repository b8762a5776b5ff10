#pragma once

#include <filesystem>
#include <set>

namespace terrace::detail {

/// Returns the sample topologies in a folder. NAME.txt is the expected description of NAME.*, and not returned.
inline std::set<std::filesystem::path> sample_files(const std::filesystem::path& folder) {
    std::set<std::filesystem::path> files;
    for (const std::filesystem::directory_entry& e : std::filesystem::directory_iterator(folder))
        if (e.path().extension() != ".txt") files.insert(e.path());
    return files;
}

}  // namespace terrace::detail
