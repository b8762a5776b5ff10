#include "planner/simulate/rank_schedules.hpp"

#include <numeric>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "planner/devices.hpp"
#include "schedule/stage_groups.hpp"

namespace terrace::detail::sim {

std::vector<int> memory_domains(const hierarchy& machine) {
    if (!through_memory(machine, 0)) return {};
    std::vector<int> domains;
    int top = 0;
    while (top + 1 < machine.depth() && through_memory(machine, top + 1)) ++top;
    for (int r = 0; r < machine.ranks(); ++r) domains.push_back(machine.shape.domain_of(top, r));
    return domains;
}

slicing slices_of(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                  std::int64_t slot_bytes) {
    const int blocks = has_blocks(what) ? machine.ranks() : 1;
    const bool in_slots = any_follows_buffers(how) && !memory_domains(machine).empty();
    return slice(div_ceil(bytes, element * blocks), element, how, blocks,
                 in_slots ? static_cast<std::size_t>(slot_bytes) : 0);
}

rank_schedules::rank_schedules(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                               std::int64_t slot_bytes)
    : what_(what), can_{.domain = memory_domains(machine)} {
    std::int64_t elements = count;
    if (has_blocks(what)) {
        const std::vector<std::int64_t> counts(at(machine.ranks()), count);
        begins_.resize(counts.size());
        std::exclusive_scan(counts.begin(), counts.end(), begins_.begin(), std::int64_t{0});
        blocks_ = compose_blocks(machine, how.stages, counts);
        elements = blocks_->c.count;
    } else {
        vector_ = compose(machine, how.stages, count, quantum_of(element), has_root(what) ? 0 : -1);
    }
    if (can_.domain.empty() || elements * element > slot_bytes) can_ = {};
    else
        for (const action a : {action::stage_reduce_scatter, action::stage_allgather, action::stage_allreduce,
                               action::stage_reduce, action::stage_broadcast})
            can_.stages |= 1u << static_cast<unsigned>(a);
}

schedule rank_schedules::of(int rank) const {
    if (blocks_) return lower(generate(*blocks_, what_, rank, begins_), can_);
    if (can_.stages != 0 && runs_natively(vector_, rank, can_))
        return lower(generate(vector_, what_, rank, can_, buffer::scratch), can_);
    return lower(generate(vector_, what_, rank), {});
}

}  // namespace terrace::detail::sim
