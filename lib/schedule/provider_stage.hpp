#pragma once

#include <vector>

#include "schedule/group_messages.hpp"
#include "schedule/stage_work.hpp"

namespace terrace::detail {

/// What members of a group do in a collective of a provider's own, in parts of what the group divides.
struct provider_stage {
    std::vector<group_message> moves = {};  ///< what links carry; nothing waits for anything
    bool shared = false;  ///< what one member reads of the root's memory others find in the cache: links carry it once
    int flag_waits = 0;   ///< how often a member waits for its peers' flags, in shared memory

    // By position.
    std::vector<double> accesses = {};    ///< what a member reads and writes
    std::vector<double> handled = {};     ///< the largest part that it works on
    std::vector<double> exposed = {};     ///< what peers read of its memory, which is where they reach it
    std::vector<double> read_again = {};  ///< what it reads of that itself in order to add it up
};

/// Returns a stage in shared memory (schedule/stage_work): links carry whatever one member reads of another's memory.
/// @param in_place what a member gives and gets are the same memory
provider_stage memory_stage(const stage_work& work, const group& g, bool in_place);

/// Returns a collective of NCCL's own between GPUs: a ring, of two rounds where all get everything, or a chain of many
/// pieces to or from a root; scatter and gather are messages from or to it. What arrives is reduced as it passes
/// through.
provider_stage nccl_stage(action what, const group& g);

}  // namespace terrace::detail
