#pragma once

#include <string>
#include <vector>

#include "planner/corrections.hpp"
#include "planner/kept_rules.hpp"

namespace terrace::detail {

/// Returns lines that say which figures profiles have changed and which not, and why. @param before the machine as it
/// was
std::string corrections_text(const hierarchy& before, const corrected_machine& c);

/// Returns lines that name the sizes for which rules that ran stay; nothing if there are none.
std::string kept_text(const std::vector<kept_range>& kept);

}  // namespace terrace::detail
