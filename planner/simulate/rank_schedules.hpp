#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan_data.hpp"
#include "schedule/call_schedule.hpp"

namespace terrace::detail::sim {

/// Bytes of an element, as simulated.
constexpr std::int64_t element = 4;

/// Returns by rank the domain of ranks with which it shares memory for messages and stages; empty if no ranks do.
std::vector<int> memory_domains(const hierarchy& machine);

/// Returns how a call is cut into chunks.
/// @param slot_bytes the longest vector that stages in shared memory accept
slicing slices_of(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                  std::int64_t slot_bytes);

/// The schedules of all ranks for one chunk of float32, with root 0: those of a communicator over host buffers outside
/// of windows, whose nodes are the machine's.
class rank_schedules {
public:
    /// @param count elements of the vector, or of each block
    rank_schedules(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                   std::int64_t slot_bytes, bool reproducible = false);

    schedule of(int rank) const { return layout_.schedule_of(rank, can_); }

private:
    call_layout layout_;
    capabilities can_;
};

}  // namespace terrace::detail::sim
