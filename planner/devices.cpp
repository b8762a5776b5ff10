#include "planner/devices.hpp"

#include "base/index.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

bool between_gpus(fabric f) noexcept { return f == fabric::nvlink || f == fabric::pcie; }

bool on_gpus(const hierarchy& machine) noexcept { return between_gpus(machine.levels.front().medium); }

bool through_memory(const hierarchy& machine, int l) noexcept {
    const fabric f = machine.levels[at(l)].medium;
    return !on_gpus(machine) && (f == fabric::shm || f == fabric::bus);
}

double access_time(const hierarchy& machine) noexcept {
    constexpr int accesses = 3;  // two read, one written
    return reduce_time(machine) / accesses;
}

double reduce_time(const hierarchy& machine) noexcept {
    if (machine.processors.reduction > 0) return 1 / machine.processors.reduction;
    return on_gpus(machine) ? 1 / policy.gpu_reduces : 1 / policy.core_reduces;
}

double flag_time(const hierarchy& machine, int l) noexcept {
    return policy.flag_of_latency * machine.levels[at(l)].latency;
}

}  // namespace terrace::detail
