#pragma once

#include <memory>
#include <span>
#include <vector>

#include "planner/load_tally.hpp"

namespace terrace::detail {

// Dimensions of a torus: links to neighbours on a ring, and orders in which a vector goes through the dimensions. See
// "Torus" and "Routes" in docs/reference/cost-model.md.

/// Returns the vectors that pass from one node to the next around a ring in its busier direction, where all positions
/// of a group send the same: each message occupies every hop on its way.
double around_ring(const phase_setting& s, const exchange& e, int size);

/// Adds the time in which a rank sends to its neighbours on a ring as if it had one link for all of them. A lane's
/// request slots go to segments in program order, so that a long message keeps the next one waiting, though that uses
/// another link: only the last segments of one message and the first of the next are in the slots together.
void add_in_turn(load_tally& tally, const pattern& p);

/// Returns how many times as much of a vector a stage has where the vector goes through the stages in another order:
/// every stage before it divides the vector by its size.
double growth_in_order(std::span<const stage> stages, const std::vector<int>& order, int number);

/// Returns which shares of the vector go through the dimensions of a torus with each dimension first, as small integers
/// by stage (stage::route_share), so that the busiest link is busy for the shortest time. Empty if the machine has no
/// torus, or if one order is as good.
/// @param costs of the stages in their order
/// @param in_one_piece the longest route counts, too
std::vector<int> route_shares(const hierarchy& machine, collective what, std::span<const stage> stages,
                              std::span<const std::shared_ptr<const stage_price>> costs, bool in_one_piece);

}  // namespace terrace::detail
