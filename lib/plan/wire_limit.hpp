#pragma once

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns the plan with wire types that keep rounding_error() of each rule at `most` or below. In a rule above it,
/// int8 (and auto) becomes bfloat16; if that is not enough, nothing is rounded. Name and id are unchanged. Ranks with
/// equal arguments get equal plans.
plan_data limited_rounding(plan_data r, double most);

/// Returns true if a stage has the wire type auto, which depends on such a limit.
bool requires_wire_error(const plan_data& r);

}  // namespace terrace::detail
