#pragma once

#include "planner/load_tally.hpp"
#include "schedule/stage_work.hpp"

namespace terrace::detail {

/// Returns what members do in a phase of a stage in shared memory, with position 0 as the root.
stage_work memory_work(mode how, bool down, root_part at_root = root_part::none);

/// Some members of a group: how many they are, and the part of the group's data that they own once it is scattered.
struct member_set {
    double count = 0, owned = 0;
};

/// Returns the vectors that the readers read in the owners' memory in a round. What one rank reads of the root's memory
/// others find in the cache.
double vectors_read(const stage_round& round, const member_set& owners, const member_set& readers);

/// Returns how often a member waits for its peers' flags: for all to arrive; and where each adds up a shard for the
/// others, for all to have done that.
int flag_waits(const stage_work& work);

/// Counts a stage in shared memory (schedule/stage_work): flags instead of messages, bytes read and written instead of
/// messages' overheads, and on links whatever one side reads of the other. In the innermost stage on the way up, ranks
/// first copy what peers read to where these reach it. docs/reference/cost-model.md, "A stage in shared memory".
void add_memory_stage(load_tally& tally);

}  // namespace terrace::detail
