#pragma once

#include <cstdint>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns the time that a plan predicts for a call [s], on the line between the sizes with predictions. Below the
/// first size, the time above its limit (start-ups) is constant; if that size is above 64 KiB, this constant is reduced
/// in proportion. 0 if the plan has no predictions.
/// @throws plan_error if the plan has no rules for the collective
double predicted_time(const plan_data& p, collective c, std::int64_t bytes);

}  // namespace terrace::detail
