#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "plan/plan_data.hpp"

// The page of `terrace report`, and its parts as JSON: one for each file.

namespace terrace::detail {

/// Returns the page's data on a plan: the machine and its assumed figures; rules and predictions by size with limits
/// and baselines; and one call with its stages, links and, if it can be simulated, its timeline.
/// @param what collective of the call, if the plan has it, else the plan's first   @param bytes of the call; fewer if a
/// call of this size cannot be simulated
nlohmann::ordered_json plan_part(const plan_data& plan, collective what, std::int64_t bytes);

/// Returns the time of a call by the plan's rule for it, from the cost model at that size [s].
double modelled_time(const plan_data& plan, collective what, std::int64_t bytes);

/// Returns the page's data on results in JSON. Results of `terrace-bench --json` and `--suite` become a plot and a
/// table, others become facts and tables, one for each array of objects.
/// @param file name to show   @param plans if the plan of the ranks is among these, its predictions are shown
nlohmann::ordered_json results_part(const std::string& file, const nlohmann::ordered_json& results,
                                    std::span<const plan_data> plans);

/// Returns a part's tables as text. Ends with a newline.
std::string results_text(const nlohmann::ordered_json& part);

}  // namespace terrace::detail
