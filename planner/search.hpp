#pragma once

#include <cstddef>
#include <span>
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

/// Returns the names of a collective's baselines, in the order in which they stand among candidates.
std::vector<std::string_view> baseline_names(collective what);

/// Returns baseline(), of a machine whose prices are at hand.
candidate named_baseline(pricer& prices, std::string_view name, collective what);

/// Returns the indices of the baselines that no plan may be predicted slower than: flat ring and two-level.
std::vector<std::size_t> floor_of(std::span<const priced_candidate> list);

}  // namespace terrace::detail
