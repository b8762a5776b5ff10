#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Returns how much of a vector each child of the outermost level is to own in an allreduce (stage::shares), so that no
/// link takes longer than the limit; empty if the links are alike, or fewer than three.
///
/// Among n >= 3 children with links of rates U, a child with the part f moves (1 + (n - 2) f) N each way. With T the
/// limit, f = (T U / N - 1) / (n - 2), or 0 where that is negative; as multiples of 1 / planner_policy::share_parts.
std::vector<int> unequal_shares(const hierarchy& machine);

}  // namespace terrace::detail
