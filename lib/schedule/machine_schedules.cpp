#include "schedule/machine_schedules.hpp"

#include "base/index.hpp"
#include "base/partition.hpp"
#include "machine/devices.hpp"

namespace terrace::detail {

namespace {

collective_call call_of(const hierarchy& machine, collective what, std::int64_t count, bool reproducible) {
    collective_call call = equal_call(machine.ranks(), what, count, float32_bytes);
    if (reproducible && row_of(what).up) call.tree = numbers_below(machine.ranks());
    return call;
}

}  // namespace

collective_call call_of_bytes(int ranks, collective what, std::int64_t bytes) {
    const std::int64_t blocks = row_of(what).blocks ? ranks : 1;
    return equal_call(ranks, what, div_ceil(bytes, float32_bytes * blocks), float32_bytes);
}

capabilities memory_capabilities(const hierarchy& machine, std::int64_t slot_bytes) {
    if (!through_memory(machine, 0)) return {.slot_bytes = static_cast<std::size_t>(slot_bytes)};
    capabilities can{.stages = ~0u, .slot_bytes = static_cast<std::size_t>(slot_bytes)};
    int top = 0;
    while (top + 1 < machine.depth() && through_memory(machine, top + 1)) ++top;
    for (int r = 0; r < machine.ranks(); ++r) can.domain.push_back(machine.shape.domain_of(top, r));
    return can;
}

slicing slices_of(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                  std::int64_t slot_bytes) {
    const std::int64_t bound = through_memory(machine, 0) ? slot_bytes : 0;
    return slice_call(call_of_bytes(machine.ranks(), what, bytes), how, machine.ranks(),
                      {.slot_bytes = static_cast<std::size_t>(bound)});
}

machine_schedules::machine_schedules(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                                     std::int64_t slot_bytes, bool reproducible)
    : layout_(machine, how.stages, call_of(machine, what, count, reproducible)),
      can_(memory_capabilities(machine, slot_bytes)) {}

}  // namespace terrace::detail
