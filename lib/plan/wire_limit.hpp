#pragma once

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns the plan with the wire types that keep rounding_error() of each rule at `most` or below: where it is above,
/// int8 (and auto) becomes bfloat16; where that is not enough, nothing is rounded. Name and id stay. Ranks that do it
/// alike have the same plan.
plan_data limited_rounding(plan_data r, double most);

/// Returns true if a stage has the wire type auto, which such a limit decides.
bool requires_wire_error(const plan_data& r);

}  // namespace terrace::detail
