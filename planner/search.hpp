#pragma once

#include <cstddef>
#include <cstdint>
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

/// Returns true if a baseline is among the machine's candidates: those over all NICs where nodes have several.
bool is_candidate(const hierarchy& machine, std::string_view name) noexcept;

/// Returns baseline(), of a machine whose prices are at hand.
candidate named_baseline(pricer& prices, std::string_view name, collective what);

}  // namespace terrace::detail
