#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace terrace::detail {

/// What the page shows of results in JSON: those of `terrace-bench --json` and `--suite` as a plot and a table, any
/// other as facts and tables, one for each array of objects.
/// @param file name to show
nlohmann::ordered_json results_part(const std::string& file, const nlohmann::ordered_json& results);

/// The same as text. Ends with a newline.
std::string results_text(const std::string& file, const nlohmann::ordered_json& results);

}  // namespace terrace::detail
