#include "bench/modes.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

namespace terrace::detail::bench {

namespace {

namespace fs = std::filesystem;

constexpr int bad_usage = 2;

int refuse(const std::string& why) {
    fmt::print(stderr, "terrace-bench: --suite: {}\n", why);
    return bad_usage;
}

// The first of these that is there, seen from where this program is: in a build folder inside the project, or
// installed.
fs::path beside(const fs::path& here, std::initializer_list<const char*> places) {
    for (const char* place : places)
        if (fs::path p = (here / place).lexically_normal(); fs::exists(p)) return p;
    return {};
}

}  // namespace

int become_suite(int argc, char** argv) {
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr)
        return refuse("it starts its runs by itself: start it without mpirun");
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed), here = self.parent_path();
    const fs::path script = beside(here, {"../../tools/bench-suite", "../libexec/terrace/tools/bench-suite"});
    const fs::path terrace = beside(here, {"../tools/terrace", "terrace"});
    if (script.empty() || terrace.empty())
        return refuse(fmt::format("{} is not there, seen from {}", script.empty() ? "tools/bench-suite" : "terrace",
                                  here.string()));
    setenv("TERRACE", terrace.c_str(), 0);
    setenv("TERRACE_BENCH", self.c_str(), 0);
    setenv("TERRACE_SUITE_NAME", "terrace-bench --suite", 1);
    std::vector<char*> words{const_cast<char*>(script.c_str())};
    for (int i = 1; i <= argc; ++i)
        if (i == argc || std::strcmp(argv[i], "--suite") != 0) words.push_back(argv[i]);
    execv(script.c_str(), words.data());
    return refuse(fmt::format("{}: {}", script.string(), std::strerror(errno)));
}

}  // namespace terrace::detail::bench
