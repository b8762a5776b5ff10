#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/hierarchy.hpp"

namespace terrace {

/// A machine as the planner sees it. Immutable once read.
struct topology {
    std::string name;
    hierarchy machine;
};

/// What one rank runs on, where a node is described by an hwloc file.
enum class rank_unit { gpus, cores, numa, packages };

std::string_view to_string(rank_unit u) noexcept;
std::optional<rank_unit> parse_rank_unit(std::string_view text) noexcept;
/// "gpus, cores, ...": for messages.
std::string rank_unit_names();

/// Turns an hwloc file into the levels of one node. @throws input_error
using node_importer = std::function<hierarchy(const std::filesystem::path& file, rank_unit ranks)>;

}  // namespace terrace
