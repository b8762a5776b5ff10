#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/variables.hpp"

namespace terrace::detail {

/// Returns the variables of the library and of the drop-in, sorted by name.
std::vector<variable> all_variables();

/// Returns the problems of these variables in a list of "NAME=value", a line each.
std::vector<std::string> problems_of_variables(std::span<const std::string> environment);

}  // namespace terrace::detail
