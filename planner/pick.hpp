#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/screen.hpp"

namespace terrace::detail {

/// A candidate, and how it runs.
struct choice {
    std::size_t candidate = 0;
    tuning how;
};

inline constexpr std::size_t no_candidate = std::numeric_limits<std::size_t>::max();

/// Returns those of the candidates that are predicted as fast as the fastest one, or nearly so.
std::vector<std::size_t> equally_fast(const screen& s, std::vector<std::size_t> among, double bytes);

/// Returns the candidate to run up to `bytes`, by predicted times. Of equally fast candidates that occupy processors
/// about as long, it is the previous size's choice, else the one with the fewest stages.
/// @param among what is fast enough over the whole range; empty: what is fast enough at `bytes`, at least a baseline
/// @param previous the choice for the size below, or no_candidate
std::size_t pick(const screen& s, std::vector<std::size_t> among, std::size_t previous, std::int64_t bytes);

/// Returns the choice among simulated ones. Of those that are about equally fast (planner_policy::alike), and not
/// slower than the floor, it is the wanted candidate, else one of the floor, else what occupies processors the least. A
/// ring over all ranks is the last of them.
/// @param wanted by its price
choice pick_simulated(const screen& s, std::vector<choice> tried, std::size_t wanted, std::int64_t bytes);

}  // namespace terrace::detail
