#pragma once

#include <memory>
#include <span>
#include <vector>

#include "machine/link_rows.hpp"
#include "planner/stage_time.hpp"

namespace terrace::detail {

// Dimensions of a torus: links to neighbours on a ring, and the orders in which parts of a vector pass the dimensions.
// See "Torus" and "Routes" in docs/reference/cost-model.md.

/// Returns the shares of the vector that pass each dimension of a torus first, as small integers by stage
/// (stage::route_share). They minimise the time of the busiest link. Empty if the machine has no torus, or if one order
/// is as good.
/// @param costs costs of the stages, in their order
/// @param in_one_piece also minimises the time of the longest route
std::vector<int> route_shares(const hierarchy& machine, const link_rows& rows, std::span<const stage> stages,
                              std::span<const std::shared_ptr<const stage_price>> costs, bool in_one_piece);

}  // namespace terrace::detail
