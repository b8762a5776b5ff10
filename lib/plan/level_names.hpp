#pragma once

#include <string>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns the names of the stage's levels: "node", "node+core".
std::string level_names(const hierarchy& machine, const stage& s);

}  // namespace terrace::detail
