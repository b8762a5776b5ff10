#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <variant>

#include <terrace/options.hpp>

#include "tools/common/answer.hpp"

namespace terrace::detail::bench {

/// What the command line of --chaos asks for.
struct chaos_settings {
    int failures = 1;
    std::filesystem::path plan_file;
    std::uint64_t seed = 1;  ///< which ranks fail, and when
    options::placement place = options::placement::by_node;
    bool ucx = false;
};

std::variant<chaos_settings, answer> parse_chaos_settings(int argc, const char* const* argv);
/// The same command line as a mode of another one's page.
std::shared_ptr<CLI::App> chaos_page();

}  // namespace terrace::detail::bench
