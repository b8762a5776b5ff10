#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include <unistd.h>

#include <gtest/gtest.h>

namespace terrace::detail {

/// A path for a file of this process alone, since tests of several checkouts may run at once. Removed at its end.
inline std::filesystem::path temporary(const std::string& name) {
    struct file_set {
        ~file_set() {
            std::error_code ignored;
            for (const std::filesystem::path& p : paths) std::filesystem::remove(p, ignored);
        }
        std::set<std::filesystem::path> paths;
    };
    static file_set used;
    return *used.paths.insert(std::filesystem::path(::testing::TempDir()) / (std::to_string(::getpid()) + "-" + name))
                .first;
}

}  // namespace terrace::detail
