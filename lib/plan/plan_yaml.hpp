#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The format of plan files, the only one that this version reads and writes.
inline constexpr int plan_format = 2;

/// Reads a plan and checks its format, the fingerprint of the topology, and that the stages of every rule fit.
/// @throws input_error
plan_data read_plan(const std::filesystem::path& file);
plan_data parse_plan(std::string_view text, const std::string& file_name);

/// Returns the normalised file: equal plan_data give equal bytes. Ignores `text` and `id`.
std::string write_plan(const plan_data& r);

/// Fills in `text` and `id` of a plan_data made in memory.
plan_data finished(plan_data r);

}  // namespace terrace::detail
