#pragma once

#include <cstdint>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns the time that a plan predicts for a message [s]: on the line between the sizes that it has predictions of.
/// Below the first one the limit shrinks with the size, and what is above it (start-ups) stays, of a size of more than
/// 64 KiB in proportion. 0 if the plan has no predictions.
/// @throws plan_error if the plan has no rules for the collective
double predicted_time(const plan_data& p, collective c, std::int64_t bytes);

}  // namespace terrace::detail
