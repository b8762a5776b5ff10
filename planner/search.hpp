#pragma once

#include <string_view>
#include <vector>

#include "planner/pricer.hpp"

namespace terrace::detail {

/// A candidate that can be priced at any size at once.
struct priced_candidate {
    candidate what;
    price cost;
};

/// Returns all candidates of the pricer's machine, in the order of candidates(): the baselines first.
std::vector<priced_candidate> search(pricer& prices, collective what);

/// Returns the baselines that are among the machine's candidates, in their order: those over all NICs only where nodes
/// have several.
std::vector<candidate> baselines(pricer& prices, collective what);

/// Returns baseline(), of a machine whose prices are at hand.
candidate named_baseline(pricer& prices, std::string_view name, collective what);

}  // namespace terrace::detail
