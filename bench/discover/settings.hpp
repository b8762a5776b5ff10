#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>

#include "tools/common/answer.hpp"

namespace terrace::detail::bench {

/// What the command line of --discover asks for.
struct discover_settings {
    std::filesystem::path output_file;   ///< empty: the file goes to stdout
    std::filesystem::path compare_file;  ///< cluster file that says how it should be; empty: none
    std::string name;
    std::uint64_t seed = 1;  ///< which pairs are measured
    int time_limit = 0;      ///< [s]; 0: the usual one
    bool trust_hosts = false;
    bool ucx = false;
    bool force = false;
    bool progress = false;
};

std::variant<discover_settings, answer> parse_discover_settings(int argc, const char* const* argv);
/// The same command line as a mode of another one's page.
std::shared_ptr<CLI::App> discover_page();

}  // namespace terrace::detail::bench
