#pragma once

#include <string>
#include <vector>

#include "planner/simulate/simulate.hpp"

namespace terrace::detail {

/// Returns the busiest link of each row of link_rows; null if a row has no links.
std::vector<const link_load*> busiest_links(const hierarchy& machine, const simulation& s);

/// Returns the number of ranks in a trace, from rank 0: all ranks unless there are too many to look at.
int traced_ranks(const simulation& s);

/// Returns a trace in Chrome's format: the first `ranks` ranks by lane, and the load of each level's busiest link.
std::string chrome_trace(const hierarchy& machine, const rule& how, const simulation& s, int ranks);

}  // namespace terrace::detail
