#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Returns how much of a vector each child of the outermost level is to own in an allreduce (stage::shares), so that no
/// link takes longer than the limit; empty if the links are alike, or fewer than three.
///
/// Among n >= 3 children with links of rates U, a child with the part f moves (1 + (n - 2) f) N each way. With T the
/// limit, f = (T U / N - 1) / (n - 2), or 0 where that is negative; as multiples of 1 / planner_policy::share_parts.
std::vector<int> shares_by_links(const hierarchy& machine);

/// Returns how much of a vector each rank of a node is to own in an allreduce, so that no slow NIC holds up the others:
/// in proportion to what the rank has of its NIC where all send, the least of that over the ranks at the same place of
/// all nodes, which exchange what they own. Empty if these are alike, or nodes have unequally many ranks.
std::vector<int> shares_by_nics(const hierarchy& machine);

}  // namespace terrace::detail
