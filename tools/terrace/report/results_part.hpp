#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// What the page shows of results in JSON: those of `terrace-bench --json` and `--suite` as a plot and a table, any
/// other as facts and tables, one for each array of objects.
/// @param file name to show   @param plans where the one that the ranks ran is among these, its predictions are shown
nlohmann::ordered_json results_part(const std::string& file, const nlohmann::ordered_json& results,
                                    std::span<const plan_data> plans);

/// A part's tables as text. Ends with a newline.
std::string results_text(const nlohmann::ordered_json& part);

}  // namespace terrace::detail
