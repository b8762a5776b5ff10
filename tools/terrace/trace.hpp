#pragma once

#include <string>
#include <vector>

#include "planner/simulate/simulate.hpp"

namespace terrace::detail {

/// Returns of each row of link_rows the link that carries most; null where there is none.
std::vector<const link_load*> busiest_links(const hierarchy& machine, const simulation& s);

/// The first ranks whose spans a trace holds: all, if they are not too many to look at.
int traced_ranks(const simulation& s);

/// What the first `ranks` ranks do, lane by lane, and how busy the busiest link of each level is, in Chrome's format.
std::string chrome_trace(const hierarchy& machine, const rule& how, const simulation& s, int ranks);

}  // namespace terrace::detail
