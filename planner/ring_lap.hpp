#pragma once

#include "planner/load_tally.hpp"

namespace terrace::detail {

/// Returns true if in every step each of several positions sends to the next one.
bool is_ring(const pattern& p);

/// Adds the lap of one part around the ring that the domain's positions form, over several levels. Its steps do not
/// wait for the longest hop each: only one latency of the longest hop stays among the start-ups, and the lap's hops add
/// up apart from them (stage_time: lap_time).
/// @param rings that carry equal parts side by side, each through other NICs
void add_lap(load_tally& tally, int rings = 1);

}  // namespace terrace::detail
