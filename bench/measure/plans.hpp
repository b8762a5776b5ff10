#pragma once

#include <string_view>

#include <terrace/plan.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail::bench {

/// The plan for `chosen`'s machine by which a backend of that name runs `what`: a baseline is a plan as well, made by
/// the planner for the same machine with the same rules for lanes and chunks. What differs is the algorithm and nothing
/// else.
/// @param name hierarchical (that is `chosen`), sequential (without its chunks: each stage begins when the one before
/// is complete), staged, flat-ring, two-level or central
/// @throws usage_error if the collective has none of that name
plan plan_of(std::string_view name, const plan& chosen, collective what);

/// The same for `what`; all other collectives run as `chosen` says.
plan plan_with(std::string_view name, const plan& chosen, collective what);

}  // namespace terrace::detail::bench
