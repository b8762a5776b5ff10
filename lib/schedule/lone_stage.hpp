#pragma once

#include "schedule/lane_code.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// Returns true for one stage of the transport without messages, if no instruction waits for the stage. All
/// instructions before it can then run in program order.
bool is_lone_stage(const lane_code& order);

/// Returns true for a lone stage whose input is a copy of the caller's whole vector.
bool gives_copy(const schedule& s, const lane_code& order);

/// Returns true for a lone allreduce in shared memory that copies the caller's vector and writes the result straight to
/// recv. Both may then be in several pieces.
bool takes_pieces(const schedule& s, const lane_code& order);

/// Returns the buffer from which a rank reads its own input of a stage that adds. This is the caller's buffer if
/// possible, since peers keep evicting the cache lines of a lane slot.
/// @param copied gives_copy() of the schedule
buffer own_part_of(const schedule& s, const instr& stage, bool copied);

}  // namespace terrace::detail
