#pragma once

#include <cstdint>
#include <vector>

#include "planner/pick.hpp"
#include "planner/trials.hpp"

namespace terrace::detail {

/// Returns true if lanes of this choice may get into each other's way, or ranks may wait for unequal siblings, and
/// simulations see it. Simulations know nothing of caches, so that a stage in memory is worth one for its blocks alone.
/// With a root it is true of vectors in lanes, or too long for one piece, where nodes have several NICs.
bool worth_simulating(const screen& s, const choice& c, std::int64_t bytes);

/// Returns the choice for calls of more than `low` and up to `high` bytes, by simulations: `predicted` where its
/// simulation agrees with its price, else the best of several that are simulated. `how.simulated` is then set.
/// Where simulations would be too long, it is `predicted` with more lanes, or something that hinders lanes less.
/// @param fast_enough screen::fast_enough of these sizes
choice choose_by_simulation(trials& t, const screen& s, const choice& predicted,
                            const std::vector<std::size_t>& fast_enough, std::int64_t low, std::int64_t high);

/// Returns the choice for calls of `bytes` with options::reproducible: the fastest in simulations, which know what
/// moves there, of those that are not far from the best by their prices, which do not. `predicted` where simulations
/// would be too long.
choice choose_reproducible(trials& t, const screen& s, const choice& predicted, std::int64_t bytes);

}  // namespace terrace::detail
