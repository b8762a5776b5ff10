#pragma once

#include <vector>

#include "planner/cost.hpp"

namespace terrace {

/// A candidate that can be priced at any size at once.
struct priced_candidate {
    candidate what;
    price cost;
};

/// All candidates of the pricer's machine, in the order of candidates(): flat ring and two-level first.
std::vector<priced_candidate> search(pricer& prices, collective what);

/// baseline(), priced.
priced_candidate priced_baseline(pricer& prices, std::string_view name, collective what);

}  // namespace terrace
