#pragma once

#include <cstdint>

#include "plan/plan_data.hpp"
#include "schedule/call_schedule.hpp"

namespace terrace::detail {

// Schedules for a call that has not been made: of float32, with root 0, on a communicator with the nodes of a machine,
// over host buffers outside of windows.

inline constexpr std::int64_t float32_bytes = 4;

/// Returns a call of this size, rounded up to elements. @param bytes of the vector, or of all blocks together
collective_call call_of_bytes(int ranks, collective what, std::int64_t bytes);

/// Returns the stages that ranks of a node run in shared memory; none if no ranks share memory.
/// @param slot_bytes length of the longest vector that they accept; 0: any
capabilities memory_capabilities(const hierarchy& machine, std::int64_t slot_bytes = 0);

/// Returns the chunks of a call. @param slot_bytes as of memory_capabilities()
slicing slices_of(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                  std::int64_t slot_bytes);

/// The schedules of all ranks for one chunk.
class machine_schedules {
public:
    /// @param count elements of the vector, or of each block   @param slot_bytes as of memory_capabilities()
    machine_schedules(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                      std::int64_t slot_bytes, bool reproducible = false);

    schedule of(int rank) const { return layout_.schedule_of(rank, can_); }

private:
    call_layout layout_;
    capabilities can_;
};

}  // namespace terrace::detail
