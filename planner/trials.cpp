#include "planner/trials.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "planner/simulate/simulate.hpp"
#include "schedule/machine_schedules.hpp"

namespace terrace::detail {

namespace {

// Returns what all simulations may take. They know nothing of rates of NCCL or MPI for buffers of devices; prices know
// nothing of partial results, so that only simulations say how long reproducible calls take.
std::int64_t work_for(const hierarchy& machine, bool reproducible) {
    if (std::ranges::any_of(machine.levels, [](const level& l) { return l.nccl || l.mpi; })) return 0;
    return policy.most_simulated * (reproducible ? static_cast<std::int64_t>(policy.most_trials) : 1);
}

// Returns the work of making all ranks' programs beside their steps: each one's composer looks at all ranks, and one
// takes an eighth of a step (docs/measurements/planning.md).
std::int64_t making(const hierarchy& machine) noexcept { return std::int64_t{machine.ranks()} * machine.ranks() / 8; }

// Returns the elements of a vector, or block, whose programs stand for all calls in one piece in which each rank has at
// least an element: to compose schedules takes longer than to run them. 0: the call is too short.
std::int64_t scaled_from(const hierarchy& machine, collective what, std::int64_t bytes) {
    const std::int64_t parts = machine.ranks(), blocks = row_of(what).blocks ? parts : 1;
    return bytes < parts * float32_bytes ? 0 : div_ceil(policy.uncut_sample, float32_bytes * blocks);
}

}  // namespace

trials::trials(const hierarchy& machine, bool reproducible)
    : machine_(machine), reproducible_(reproducible), left_(work_for(machine, reproducible)) {}

std::optional<double> trials::time(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most) {
    const std::int64_t chunks = how.chunk == 0 ? 1 : div_ceil(bytes, how.chunk);
    const std::int64_t some = std::max(policy.simulated_chunks, 2 * how.lanes);
    if (chunks <= some) return run(c, how, bytes, most);
    const auto half = run(c, how, some / 2 * how.chunk, most);
    if (!half || std::isinf(*half)) return half;
    const double later =
        static_cast<double>(bytes - some * how.chunk) / static_cast<double>((some - some / 2) * how.chunk);
    const auto first = run(c, how, some * how.chunk, (most + later * *half) / (1 + later));
    if (!first) return {};
    return *first + later * (*first - *half);
}

std::optional<double> trials::run(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most) {
    const std::string key = fmt::format("{} {} {} {}", key_of(c.what.stages), how.lanes, how.chunk, bytes);
    const auto known = known_.find(key);
    const bool again = known != known_.end();
    if (again && (!std::isinf(known->second.time) || most <= known->second.most)) return known->second.time;
    if (again) most = std::numeric_limits<double>::infinity();
    const std::int64_t budget = left_ - for_later_;
    const double messages = c.cost.messages(static_cast<double>(bytes), how.chunk);
    if (making(machine_) > budget || messages > static_cast<double>(budget)) return {};
    const rule by{.up_to = bytes, .lanes = how.lanes, .chunk = how.chunk, .stages = c.what.stages};
    const std::int64_t slot = how.chunk == 0 ? 2 * policy.largest_size : 0;  // one piece, blocks rounded up as well
    const std::size_t programs = programs_.size();
    simulation made;
    try {
        made = simulate(machine_, by, c.cost.what(), bytes,
                        {.slot_bytes = slot,
                         .reproducible = reproducible_,
                         .most_steps = budget,
                         .most_shares = budget,
                         .counts_loads = false,
                         .until = most,
                         .known = &programs_,
                         .scaled_from = how.chunk == 0 ? scaled_from(machine_, c.cost.what(), bytes) : 0});
    } catch (const plan_error&) {
        return {};  // its programs are longer than its messages are many
    }
    left_ -= made.work + static_cast<std::int64_t>(programs_.size() - programs) * making(machine_);
    if (made.work > budget && std::isinf(made.time)) return {};
    known_[key] = {made.time, most};
    return made.time;
}

}  // namespace terrace::detail
