#pragma once

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>

namespace terrace::detail::test {

/// Writes events of this process into DIRECTORY/PID.events: lines of NAME TIME [WORDS], with the time of
/// CLOCK_MONOTONIC [s].
class event_log {
public:
    /// Opens the file. PID is the number in /proc, as the test sees it, since the process may be in a PID namespace.
    explicit event_log(const std::string& directory)
        : file_(std::fopen(
              fmt::format("{}/{}.events", directory, std::filesystem::read_symlink("/proc/self").string()).c_str(),
              "w")) {}
    void write(const std::string& name, const std::string& words = "") {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        fmt::print(file_, "{} {:.6f} {}\n", name,
                   static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9, words);
        std::fflush(file_);
    }

private:
    FILE* file_;
};

inline std::ptrdiff_t entries_of(const char* directory) {
    return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
}

/// Returns the number of mappings of shared memory, UCX's and Terrace's.
inline std::ptrdiff_t shared_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::ptrdiff_t found = 0;
    for (std::string line; std::getline(maps, line);) found += line.find("/dev/shm/") != std::string::npos;
    return found;
}

/// Returns "DESCRIPTORS THREADS MAPPINGS": how many of each this process has.
inline std::string kept() {
    return fmt::format("{} {} {}", entries_of("/proc/self/fd"), entries_of("/proc/self/task"), shared_mappings());
}

}  // namespace terrace::detail::test
