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

/// Returns whether a candidate may run calls of so many bytes: longer blocks of reduce_scatter and allgather do not
/// pass through one rank of a domain (planner_policy::largest_through_one).
bool is_for(const priced_candidate& c, std::int64_t bytes) noexcept;

/// Returns the names of a collective's baselines, in the order in which they stand among candidates.
std::vector<std::string_view> baseline_names(collective what);

/// Returns true if a baseline is among the machine's candidates: those over all NICs where nodes have several.
bool is_candidate(const hierarchy& machine, std::string_view name) noexcept;

/// Returns baseline(), of a machine whose prices are at hand.
candidate named_baseline(pricer& prices, std::string_view name, collective what);

/// Returns the indices of the baselines that no plan may be predicted slower than: all but central.
std::vector<std::size_t> floor_of(std::span<const priced_candidate> list);

}  // namespace terrace::detail
