#pragma once

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Returns true for memory that processor cores share, or that sockets reach of one another.
bool is_memory(fabric f) noexcept;

/// Returns true if ranks are GPUs: the link of a rank is NVLink or PCIe. Messages between them go whole.
bool on_gpus(const hierarchy& machine) noexcept;

/// Returns true if ranks that meet at level `l` are processor cores that copy through memory they share.
bool through_memory(const hierarchy& machine, int l) noexcept;

}  // namespace terrace::detail
