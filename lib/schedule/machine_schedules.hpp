#pragma once

#include <cstdint>

#include "plan/plan_data.hpp"
#include "schedule/call_schedule.hpp"

namespace terrace::detail {

// What the ranks of a machine run in a call of float32 that nobody has made yet: with root 0, on a communicator over
// host buffers outside of windows, whose nodes are the machine's.

inline constexpr std::int64_t float32_bytes = 4;

/// Returns a call of so many bytes, rounded up to elements. @param bytes of the vector, or of all blocks together
collective_call call_of_bytes(int ranks, collective what, std::int64_t bytes);

/// Returns what ranks of a node run by themselves in memory that they share; nothing if no ranks share any.
/// @param slot_bytes the longest vector that they accept; 0: any
capabilities memory_capabilities(const hierarchy& machine, std::int64_t slot_bytes = 0);

/// Returns how a call is cut into chunks. @param slot_bytes as of memory_capabilities()
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
