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

/// Sizes that plans are made for [bytes]: powers of two.
inline constexpr std::int64_t smallest_size = 8;
inline constexpr std::int64_t largest_size = std::int64_t{1} << 30;

}  // namespace terrace
