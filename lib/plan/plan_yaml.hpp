#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plan/recipe.hpp"

namespace terrace {

/// The plan file format this version reads and writes.
inline constexpr int plan_format = 1;

/// @throws input_error; checks the version, the topology's fingerprint, and that the stages of every rule fit
recipe read_plan(const std::filesystem::path& file);
recipe parse_plan(std::string_view text, const std::string& file_name);

/// The normalised file: equal recipes give equal bytes. Ignores `text` and `id`.
std::string write_plan(const recipe& r);

/// Fills in `text` and `id` of a recipe made in memory.
recipe finished(recipe r);

}  // namespace terrace
