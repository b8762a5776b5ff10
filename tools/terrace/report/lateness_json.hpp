#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace terrace::detail {

/// Returns what the statistics in a directory say of who is late, as facts and tables for results_part.
/// @throws input_error
nlohmann::ordered_json lateness_json(const std::filesystem::path& directory);

}  // namespace terrace::detail
