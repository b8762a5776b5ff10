#pragma once

#include <vector>

#include "schedule/group_messages.hpp"
#include "schedule/stage_work.hpp"

namespace terrace::detail {

/// The data movement and work of a group's members in a provider's own collective, relative to the group's data.
struct provider_stage {
    std::vector<group_message> moves = {};  ///< data that cross links; no message waits for another
    bool shared = false;  ///< members read the same data of the root: they cross a link once, then are in the cache
    int flag_waits = 0;   ///< number of times that a member waits for its peers' flags, in shared memory

    // By position.
    std::vector<double> accesses = {};    ///< data that a member reads and writes
    std::vector<double> handled = {};     ///< largest part that a member works on
    std::vector<double> exposed = {};     ///< data of a member that peers read, where they can access it
    std::vector<double> read_again = {};  ///< part of its own data that a member reads to add it
};

/// Returns a stage in shared memory (schedule/stage_work): data that one member reads from another's memory cross
/// links. @param in_place input and output of a member are the same memory
provider_stage memory_stage(const stage_work& work, const group& g, bool in_place);

/// Returns NCCL's own collective between GPUs. It is a ring, of two rounds in an allreduce, or a chain of many pieces
/// to or from the root of a reduce or broadcast. Scatter and gather are messages from or to the root. Data are reduced
/// as they pass through.
provider_stage nccl_stage(action what, const group& g);

}  // namespace terrace::detail
