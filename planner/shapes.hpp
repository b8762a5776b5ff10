#pragma once

#include <cstddef>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// All levels of a machine, covered from the innermost to the outermost level by stages without modes and algorithms.
using shape = std::vector<stage>;

/// Returns true if a stage is one of the two factors of a level.
bool is_split(const shape& s, std::size_t number);
bool has_split(const shape& s);

/// Returns the shapes of a machine: its levels kept or merged with their neighbours, and at most one level split in two
/// factors. More splits cost more start-ups than they save. Dimensions of a torus are not split, since part of a ring
/// is no ring. Shapes without a split come first, and fewer stages before more. If there are more than
/// planner_policy::most_candidates, these are the first ones, and the one with a stage per level.
std::vector<shape> shapes_of(const hierarchy& machine);

}  // namespace terrace::detail
