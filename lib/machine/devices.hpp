#pragma once

#include "base/index.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Returns true for links through memory: memory that processor cores share, or links between sockets.
constexpr bool is_memory(fabric f) noexcept { return f == fabric::shm || f == fabric::bus; }

/// Returns true if ranks are GPUs: the link of a rank is NVLink or PCIe. Messages between GPUs are not segmented.
inline bool on_gpus(const hierarchy& machine) noexcept {
    const fabric f = machine.levels.front().medium;
    return f == fabric::nvlink || f == fabric::pcie;
}

/// Returns true if ranks whose nearest common level is `l` are processor cores that copy through shared memory.
inline bool through_memory(const hierarchy& machine, int l) noexcept {
    return !on_gpus(machine) && is_memory(machine.levels[at(l)].medium);
}

}  // namespace terrace::detail
