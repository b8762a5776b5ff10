#include "bench/command.hpp"

#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <terrace/error.hpp>

#include "tools/common/output.hpp"

namespace terrace::detail::bench {

std::string now_text() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

void say(const world& w, const std::string& text) {
    w.together([&] {
        if (w.first()) say_text(text);
        return true;
    });
}

void expect_writable(const std::filesystem::path& file, const char* option) {
    std::filesystem::path folder = file.parent_path();
    if (folder.empty()) folder = ".";
    if (access(folder.c_str(), W_OK) != 0 || std::filesystem::is_directory(file))
        throw input_error(file.string(), 0, 0,
                          fmt::format("cannot be written; give {} a file in a folder that exists", option));
}

}  // namespace terrace::detail::bench
