#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "bench/measure/world.hpp"
#include "bench/settings.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

/// What `terrace-bench --detect` is asked for.
struct detect_settings {
    std::filesystem::path output_file;  ///< empty: the file goes to stdout
    std::string name;
    bool measure = false;
    bool force = false;  ///< replaces a file that Terrace did not write
    bool progress = false;
};
std::variant<detect_settings, answer> parse_detect_settings(int argc, const char* const* argv);

/// The machine of all ranks, and by place the rank that has it.
struct detected {
    hierarchy machine;
    std::vector<int> ranks;
    std::string levels_from;  ///< on the first rank: what the levels above nodes come from; empty for one node
};

/// Collective. Each node is described once. @throws plan_error on all ranks if one cannot be
detected detect(const world& w);

}  // namespace terrace::detail::bench
