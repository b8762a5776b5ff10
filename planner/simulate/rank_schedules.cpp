#include "planner/simulate/rank_schedules.hpp"

#include <numeric>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "planner/devices.hpp"

namespace terrace::detail::sim {

std::vector<int> memory_domains(const hierarchy& machine) {
    if (!through_memory(machine, 0)) return {};
    std::vector<int> domains;
    int top = 0;
    while (top + 1 < machine.depth() && through_memory(machine, top + 1)) ++top;
    for (int r = 0; r < machine.ranks(); ++r) domains.push_back(machine.shape.domain_of(top, r));
    return domains;
}

namespace {

// With root 0.
collective_call call_of(const hierarchy& machine, collective what, std::int64_t count, bool reproducible = false) {
    collective_call call = equal_call(machine.ranks(), what, count, element);
    if (reproducible && row_of(what).up) {
        call.tree.resize(at(machine.ranks()));
        std::iota(call.tree.begin(), call.tree.end(), 0);
    }
    return call;
}

}  // namespace

slicing slices_of(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                  std::int64_t slot_bytes) {
    const std::int64_t count = div_ceil(bytes, element * (row_of(what).blocks ? machine.ranks() : 1));
    const bool in_slots = !memory_domains(machine).empty();
    return slice_call(call_of(machine, what, count), how, machine.ranks(),
                      {.slot_bytes = in_slots ? static_cast<std::size_t>(slot_bytes) : 0});
}

rank_schedules::rank_schedules(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                               std::int64_t slot_bytes, bool reproducible)
    : layout_(machine, how.stages, call_of(machine, what, count, reproducible)),
      can_{.domain = memory_domains(machine), .slot_bytes = static_cast<std::size_t>(slot_bytes)} {
    if (!can_.domain.empty()) can_.stages = ~0u;
}

}  // namespace terrace::detail::sim
