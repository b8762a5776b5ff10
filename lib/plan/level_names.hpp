#pragma once

#include <string>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns the names of the stage's levels: "node", "node+core".
std::string level_names(const hierarchy& machine, const stage& s);

/// Returns "4", or "2..4" if the groups differ in size.
std::string group_text(const std::vector<int>& sizes);

}  // namespace terrace::detail
