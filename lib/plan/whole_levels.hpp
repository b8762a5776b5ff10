#pragma once

#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns for each domain of level `last` how many ranks, or domains of the level inside `first`, it contains.
std::vector<int> sizes_over(const tree& t, int first, int last);

/// Returns the stage that covers levels first to last as they are, without an algorithm.
stage whole_levels(const tree& t, int first, int last);

}  // namespace terrace::detail
