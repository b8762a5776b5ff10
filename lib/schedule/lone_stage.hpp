#pragma once

#include "schedule/lane_code.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// True for one stage of the transport with no message before it and nothing after it: all that precedes the stage can
/// run in program order.
bool is_lone_stage(const lane_code& order);

/// True for a lone stage that gives a copy of all that the caller passed in.
bool gives_copy(const schedule& s, const lane_code& order);

/// True for a lone allreduce that copies what the caller passed in and writes the result to where the caller wants it:
/// both may then be in several places.
bool takes_pieces(const schedule& s, const lane_code& order);

/// Returns the buffer in which a rank reads its own part of what a stage adds up. Peers keep taking away the cache
/// lines of a slot, so that is the caller's buffer where it can be.
/// @param copied gives_copy() of the schedule
buffer own_part_of(const schedule& s, const instr& stage, bool copied);

}  // namespace terrace::detail
