#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "plan/plan_data.hpp"

// The page of `terrace report`, and its parts as JSON: one for each file.

namespace terrace::detail {

/// What the page shows of a plan: the machine, what is assumed of it, rules and predictions by size beside limits and
/// baselines, and one call: its stages, links and timeline, where it can be simulated.
/// @param what the collective of that call, if the plan has it, else the plan's first   @param bytes of the call; less
/// where so much cannot be simulated
nlohmann::ordered_json plan_part(const plan_data& plan, collective what, std::int64_t bytes);

/// The time of a call by the plan's rule for it, as the cost model has it at that size [s].
double modelled_time(const plan_data& plan, collective what, std::int64_t bytes);

/// What the page shows of results in JSON: those of `terrace-bench --json` and `--suite` as a plot and a table, any
/// other as facts and tables, one for each array of objects.
/// @param file name to show   @param plans where the one that the ranks ran is among these, its predictions are shown
nlohmann::ordered_json results_part(const std::string& file, const nlohmann::ordered_json& results,
                                    std::span<const plan_data> plans);

/// A part's tables as text. Ends with a newline.
std::string results_text(const nlohmann::ordered_json& part);

}  // namespace terrace::detail
