#pragma once

#include <string_view>
#include <vector>

#include "planner/pricer.hpp"

namespace terrace::detail {

/// A candidate with its price at any size.
struct priced_candidate {
    candidate what;
    price cost;
};

/// Returns all candidates of the pricer's machine, in the order of candidates(): the baselines first.
std::vector<priced_candidate> search(pricer& prices, collective what);

/// Returns the baselines that are candidates for the machine, in their order. Baselines over all NICs are candidates
/// only if nodes have several.
std::vector<candidate> baselines(pricer& prices, collective what);

/// Returns baseline() of the pricer's machine.
candidate named_baseline(pricer& prices, std::string_view name, collective what);

}  // namespace terrace::detail
