#pragma once

#include <memory>
#include <span>
#include <vector>

#include "machine/link_rows.hpp"
#include "planner/stage_time.hpp"

namespace terrace::detail {

// Dimensions of a torus: links to neighbours on a ring, and orders in which a vector goes through the dimensions. See
// "Torus" and "Routes" in docs/reference/cost-model.md.

/// Returns which shares of the vector go through the dimensions of a torus with each dimension first, as small integers
/// by stage (stage::route_share), so that the busiest link is busy for the shortest time. Empty if the machine has no
/// torus, or if one order is as good.
/// @param costs of the stages in their order
/// @param in_one_piece the longest route counts, too
std::vector<int> route_shares(const hierarchy& machine, const link_rows& rows, std::span<const stage> stages,
                              std::span<const std::shared_ptr<const stage_price>> costs, bool in_one_piece);

}  // namespace terrace::detail
