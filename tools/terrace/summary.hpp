#pragma once

#include <string>

#include "machine/hierarchy.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// "1.75x": how many times as long `slower` takes.
std::string ratio_text(double slower, double faster);
/// "97 %": how much of the physical limit's speed a time reaches; "-" where there is no limit.
std::string percent_of_limit(double limit, double time);
/// "max" or bytes.
std::string bound_text(std::int64_t up_to);
/// The price, and beside it what was simulated where that decided.
std::string predicted_text(const rule& r);
/// "2 x 96 KiB": lanes and chunk; "-" where the vector goes through in one piece.
std::string lanes_text(const rule& r);

/// "node+rack scatter ring"
std::string stage_text(const hierarchy& machine, const stage& s);

/// "8 ranks", "1 rank"
std::string ranks_text(const hierarchy& machine);

/// Lines that list the levels' rates; what is assumed has a `*`, explained in a last line.
std::string rates_text(const hierarchy& machine);

}  // namespace terrace::detail
