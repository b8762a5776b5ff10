#include "machine/devices.hpp"

#include "base/index.hpp"

namespace terrace::detail {

bool is_memory(fabric f) noexcept { return f == fabric::shm || f == fabric::bus; }

bool on_gpus(const hierarchy& machine) noexcept {
    const fabric f = machine.levels.front().medium;
    return f == fabric::nvlink || f == fabric::pcie;
}

bool through_memory(const hierarchy& machine, int l) noexcept {
    return !on_gpus(machine) && is_memory(machine.levels[at(l)].medium);
}

}  // namespace terrace::detail
