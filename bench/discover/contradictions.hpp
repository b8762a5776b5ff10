#pragma once

#include <string>
#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

/// Returns the differences between a measured machine and a file, one sentence each: nodes in other groups, links with
/// other rates, levels that only one of them has. Empty if there are none.
/// @param found the measured machine   @param ranks by place in `found`, the place in `stated`
/// @param sure number of levels of `found`, from the innermost on, that are compared; groups that `found` lacks are
/// reported only if all its levels are
std::vector<std::string> contradictions(const hierarchy& found, const std::vector<int>& ranks, const hierarchy& stated,
                                        int sure);

}  // namespace terrace::detail::bench
