#pragma once

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Returns true for links between GPUs. Messages go whole there.
bool between_gpus(fabric f) noexcept;

/// Returns true if ranks are GPUs: the link of a rank is NVLink or PCIe.
bool on_gpus(const hierarchy& machine) noexcept;

/// Returns true if ranks that meet at level `l` are processor cores that copy through memory they share.
bool through_memory(const hierarchy& machine, int l) noexcept;

/// Time to add one byte to an accumulator on one rank: gamma [s/B]. The machine's own rate, or planner_policy's.
double reduce_time(const hierarchy& machine) noexcept;

/// Time to read or write one byte: gamma / 3 [s/B], since a reduction reads two and writes one.
double access_time(const hierarchy& machine) noexcept;

/// Time until a rank sees the flag of a peer that it meets at level `l`, in memory that they share [s]: alpha / 3.
double flag_time(const hierarchy& machine, int l) noexcept;

}  // namespace terrace::detail
