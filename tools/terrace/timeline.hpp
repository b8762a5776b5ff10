#pragma once

#include <string>

#include "planner/simulate/simulate.hpp"

namespace terrace::detail {

/// The first ranks whose spans a trace holds: all, if they are not too many to look at.
int traced_ranks(const simulation& s);

/// What the first `ranks` ranks do, lane by lane, and how busy the busiest link of each level is, in Chrome's format.
std::string chrome_trace(const hierarchy& machine, const rule& how, const simulation& s, int ranks);

/// A picture: the stages of some ranks over time, and under them the loads of the busiest links of each level.
std::string timeline_svg(const hierarchy& machine, const rule& how, const simulation& s, const std::string& title);

}  // namespace terrace::detail
