#pragma once

#include <string>
#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

/// What measurements and a file say differently of one machine, a sentence each: nodes in other groups, links of other
/// rates, levels that one of both lacks. Empty: nothing.
/// @param found as discovered   @param ranks by place in it, the place in `said`
/// @param sure levels of `found`, from the innermost one on, that are compared; groups that it lacks show only if all
/// are
std::vector<std::string> contradictions(const hierarchy& found, const std::vector<int>& ranks, const hierarchy& said,
                                        int sure);

}  // namespace terrace::detail::bench
