#pragma once

#include <span>

#include <terrace/plan.hpp>

#include "executor/transport.hpp"

namespace terrace {

/// A plan for some ranks of a plan's machine: made for what is left of the machine by rank 0 of `net`, which has exactly
/// these ranks, and sent to the others. Collective over `net`.
/// @param ranks by the numbering of `whole`, ascending   @throws plan_error on all ranks if there is none
plan plan_part(const recipe& whole, std::span<const int> ranks, transport& net);

}  // namespace terrace
