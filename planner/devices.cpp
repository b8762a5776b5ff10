#include "planner/devices.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

namespace {

double longest_overhead(const hierarchy& machine) noexcept {
    double longest = 0;
    for (const level& l : machine.levels) longest = std::max(longest, l.overhead);
    return longest;
}

}  // namespace

bool between_gpus(fabric f) noexcept { return f == fabric::nvlink || f == fabric::pcie; }

bool on_gpus(const hierarchy& machine) noexcept { return between_gpus(machine.levels.front().medium); }

bool through_memory(const hierarchy& machine, int l) noexcept {
    const fabric f = machine.levels[at(l)].medium;
    return !on_gpus(machine) && (f == fabric::shm || f == fabric::bus);
}

double access_time(const hierarchy& machine) noexcept { return reduce_time(machine) / policy.accesses_of_reduction; }

double reduce_time(const hierarchy& machine) noexcept {
    if (machine.processors.reduction > 0) return 1 / machine.processors.reduction;
    return on_gpus(machine) ? 1 / policy.gpu_reduces : 1 / policy.core_reduces;
}

double flag_time(const hierarchy& machine, int l) noexcept {
    return policy.flag_of_latency * machine.levels[at(l)].latency + turn_time(machine);
}

double turn_time(const hierarchy& machine) noexcept {
    if (machine.shared_cores() == 0) return 0;
    return (static_cast<double>(machine.ranks()) / machine.shared_cores() - 1) * longest_overhead(machine);
}

double wait_time(const hierarchy& machine) noexcept {
    if (machine.shared_cores() == 0) return 0;
    return policy.wait_of_overhead * longest_overhead(machine) / machine.shared_cores();
}

}  // namespace terrace::detail
