#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/tuning.hpp"

namespace terrace::detail {

/// A candidate, and how it runs.
struct choice {
    const priced_candidate* what = nullptr;
    tuning how;

    /// By the best judge of time there is [s].
    double time() const noexcept { return how.simulated > 0 ? how.simulated : how.time; }
};

/// Returns the candidates with the least prices, at most so many, the least first. What a lower bound excludes is not
/// tuned.
std::vector<choice> cheapest(const hierarchy& machine, std::span<const priced_candidate> list, std::int64_t bytes,
                             std::size_t most);

/// Returns rules for all sizes, made of the candidates of one collective. There is one rule of choice: the candidates
/// with the least prices are simulated, as far as that is affordable, and the fastest wins; of those that are as good
/// as equal, the one that occupies processors the least. Where nothing can be simulated, prices decide in the same way.
/// Sizes that run alike share a rule.
/// @param reproducible simulations are of calls with options::reproducible, which move more than prices know of
std::vector<rule> make_rules(const hierarchy& machine, std::span<const priced_candidate> list,
                             bool reproducible = false);

/// Returns rules for all sizes, each made of the candidate in this place by price, 0 for the cheapest; of fewer, the
/// last. They show what a choice is worth where they are measured beside make_rules().
std::vector<rule> rules_by_place(const hierarchy& machine, std::span<const priced_candidate> list, std::size_t place);

}  // namespace terrace::detail
