#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/tuning.hpp"

namespace terrace::detail {

/// A candidate with its lanes and chunk.
struct choice {
    const priced_candidate* what = nullptr;
    tuning how;

    /// Returns the simulated time if there is one, otherwise the predicted time [s].
    double time() const noexcept { return how.simulated > 0 ? how.simulated : how.time; }
};

/// Returns the candidates with the lowest prices, at most `most`, cheapest first. Candidates are not tuned if their
/// lower bound exceeds the others' prices.
std::vector<choice> cheapest(const hierarchy& machine, std::span<const priced_candidate> list, std::int64_t bytes,
                             std::size_t most);

/// Returns rules for all sizes, made of the candidates of one collective. The cheapest candidates are simulated, as far
/// as that is affordable, and the fastest is chosen. Among nearly equal ones, the candidate with the fewest messages
/// sent at once wins, then the one with the least processor time. Without simulations, prices decide in the same way.
/// Adjacent sizes that run alike share a rule.
/// @param reproducible simulates calls with options::reproducible, which move more data than prices count
std::vector<rule> make_rules(const hierarchy& machine, std::span<const priced_candidate> list,
                             bool reproducible = false);

/// Returns rules for all sizes, each made of the candidate at this place by price, 0 for the cheapest; the last one if
/// there are fewer. Measured beside make_rules(), they show the benefit of its choice.
std::vector<rule> rules_by_place(const hierarchy& machine, std::span<const priced_candidate> list, std::size_t place);

}  // namespace terrace::detail
