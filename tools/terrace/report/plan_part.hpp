#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// What the page shows of a plan: the machine, what is assumed of it, rules and predictions by size beside limits and
/// baselines, and one call: its stages, links and timeline, where it can be simulated.
/// @param what the collective of that call, if the plan has it, else the plan's first   @param bytes of the call; less
/// where so much cannot be simulated
nlohmann::ordered_json plan_part(const plan_data& plan, collective what, std::int64_t bytes);

/// The time of a call by the plan's rule for it, as the cost model has it at that size [s].
double modelled_time(const plan_data& plan, collective what, std::int64_t bytes);

}  // namespace terrace::detail
