#pragma once

#include <string>

#include "machine/hierarchy.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns "1.75x": the ratio of two times.
std::string ratio_text(double slower, double faster);
/// Returns "97 %": the speed relative to that of the limit; "-" if there is no limit.
std::string percent_of_limit(double limit, double time);
/// Returns "max" or bytes.
std::string bound_text(std::int64_t up_to);
/// Returns the price, and the simulated time if there is one.
std::string predicted_text(const rule& r);
/// Returns "2 x 96 KiB": lanes and chunk; "-" if the vector is one piece.
std::string lanes_text(const rule& r);

/// Returns "node+rack scatter ring".
std::string stage_text(const hierarchy& machine, const stage& s);

/// Returns "8 ranks", "1 rank".
std::string ranks_text(const hierarchy& machine);

/// Returns lines with the levels' rates. Assumed values have a `*`, explained in a last line.
std::string rates_text(const hierarchy& machine);

}  // namespace terrace::detail
