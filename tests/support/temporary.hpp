#pragma once

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include <unistd.h>

#include <gtest/gtest.h>

namespace terrace::detail {

/// Returns a path that only this process uses, since several checkouts may run tests. Removed when the process ends.
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

/// A new directory, which is removed with its files.
class temporary_directory {
public:
    temporary_directory() : path_(std::filesystem::path(::testing::TempDir()) / "terrace-XXXXXX") {
        std::string name = path_.string();
        if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
        path_ = name;
    }
    temporary_directory(const temporary_directory&) = delete;
    temporary_directory& operator=(const temporary_directory&) = delete;
    ~temporary_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

}  // namespace terrace::detail
