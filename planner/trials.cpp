#include "planner/trials.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "planner/simulate/rank_schedules.hpp"
#include "planner/simulate/simulate.hpp"

namespace terrace::detail {

bool moves_by_links(const hierarchy& machine) noexcept {
    return std::none_of(machine.levels.begin(), machine.levels.end(),
                        [](const level& l) { return l.nccl.has_value() || l.mpi.has_value(); });
}

namespace {

// Returns what all simulations may take. Prices know nothing of partial results, so that only these say how long
// reproducible calls take.
std::int64_t work_for(bool reproducible) {
    return policy.most_simulated * (reproducible ? static_cast<std::int64_t>(policy.most_trials) : 1);
}

}  // namespace

trials::trials(const hierarchy& machine, bool reproducible)
    : machine_(machine), reproducible_(reproducible), left_(moves_by_links(machine) ? work_for(reproducible) : 0) {}

std::optional<double> trials::time(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most) {
    const std::int64_t chunks = how.chunk == 0 ? 1 : div_ceil(bytes, how.chunk);
    const std::int64_t some = std::int64_t{policy.simulated_rounds} * how.lanes;
    if (chunks <= some) return run(c, how, bytes, most);
    const auto half = run(c, how, some / 2 * how.chunk, most);
    if (!half || std::isinf(*half)) return half;
    const double later = static_cast<double>(chunks - some) / static_cast<double>(some - some / 2);
    const auto first = run(c, how, some * how.chunk, (most + later * *half) / (1 + later));
    if (!first) return {};
    return *first + later * (*first - *half);
}

// Returns the elements of a vector, or block, whose programs stand for all calls in one piece in which each rank has at
// least an element: to compose schedules takes longer than to run them. 0: the call is too short.
std::int64_t trials::scaled_from(collective what, std::int64_t bytes) const {
    const std::int64_t parts = machine_.ranks(), blocks = row_of(what).blocks ? parts : 1;
    if (bytes < parts * sim::element) return 0;
    return div_ceil(policy.largest_uncut, sim::element * blocks);
}

std::int64_t trials::making() const noexcept { return std::int64_t{machine_.ranks()} * machine_.ranks() / 8; }

std::optional<double> trials::run(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most) {
    const std::string key = fmt::format("{} {} {} {}", key_of(c.what.stages), how.lanes, how.chunk, bytes);
    const auto known = known_.find(key);
    const bool again = known != known_.end();
    if (again && (!std::isinf(known->second.time) || most <= known->second.most)) return known->second.time;
    if (again) most = std::numeric_limits<double>::infinity();
    const std::int64_t budget = left_ - for_later_;
    const double messages = c.cost.messages(static_cast<double>(bytes), how.chunk);
    if (making() > budget || messages > static_cast<double>(budget)) return {};
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
                         .scaled_from = how.chunk == 0 ? scaled_from(c.cost.what(), bytes) : 0});
    } catch (const plan_error&) {
        return {};  // its programs are longer than its messages are many
    }
    left_ -= made.work + static_cast<std::int64_t>(programs_.size() - programs) * making();
    if (made.work > budget && std::isinf(made.time)) return {};
    known_[key] = {made.time, most};
    return made.time;
}

}  // namespace terrace::detail
