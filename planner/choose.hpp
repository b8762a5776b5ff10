#pragma once

#include <span>
#include <vector>

#include "planner/search.hpp"

namespace terrace::detail {

/// Returns rules for all sizes, made of the candidates of one collective: for each size they are screened, simulated
/// where that may tell more than their prices, and one is picked. Sizes that run alike share a rule.
/// @param floor the indices of baselines: no rule is predicted slower than any of them
/// @param reproducible of long vectors those candidates are chosen that are the fastest with options::reproducible, as
/// far as simulations tell
std::vector<rule> make_rules(const hierarchy& machine, std::span<const priced_candidate> list,
                             std::vector<std::size_t> floor, bool reproducible = false);

/// Returns rules for all sizes, each made of the candidate in this place by price, 0 for the cheapest; of fewer, the
/// last. They show what a choice is worth where they are measured beside make_rules().
std::vector<rule> rules_by_place(const hierarchy& machine, std::span<const priced_candidate> list, std::size_t place);

}  // namespace terrace::detail
