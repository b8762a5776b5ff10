#pragma once

#include <string>

#include "planner/figures.hpp"

namespace terrace::detail {

/// Returns "bandwidth of rack", "rate of reductions".
std::string name_of(const hierarchy& machine, const figure& f);

/// Returns the value of a figure, or so many times it, with its unit.
std::string value_text(const figure& f, double factor = 1);

}  // namespace terrace::detail
