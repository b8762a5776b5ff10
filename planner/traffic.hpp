#pragma once

#include "planner/load_tally.hpp"
#include "planner/pattern.hpp"
#include "planner/phase_setting.hpp"

namespace terrace::detail {

/// Returns the load of a phase. Every message is charged to each link that it crosses, whatever levels the stage's
/// groups are made of, and to the processors at both ends.
phase_load load_of(const phase_setting& setting, pattern_book& patterns);

/// Counts the messages of a pattern in which every position sends the same, turned around the group: those that samples
/// send and receive say it all.
void add_circulant(load_tally& tally, const pattern& p);

/// Counts the messages of any other pattern, one by one.
void add_messages(load_tally& tally, const pattern& p);

}  // namespace terrace::detail
