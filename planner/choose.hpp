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

}  // namespace terrace::detail
