#include "planner/trials.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/partition.hpp"
#include "planner/policy.hpp"
#include "planner/simulate/simulate.hpp"

namespace terrace::detail {

bool moves_by_links(const hierarchy& machine) noexcept {
    return std::none_of(machine.levels.begin(), machine.levels.end(),
                        [](const level& l) { return l.nccl.has_value() || l.mpi.has_value(); });
}

trials::trials(const hierarchy& machine, bool reproducible, double burst)
    : machine_(machine),
      reproducible_(reproducible),
      burst_(burst),
      left_(moves_by_links(machine) ? policy.simulated_shares * (reproducible ? policy.reproducible_trials : 1) : 0) {}

std::optional<double> trials::time(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes) {
    const std::int64_t chunks = chunk == 0 ? 1 : div_ceil(bytes, chunk), some = policy.simulated_rounds * lanes;
    if (chunks <= some) return run(c, lanes, chunk, bytes);
    const auto first = run(c, lanes, chunk, some / 2 * chunk), all = run(c, lanes, chunk, some * chunk);
    if (!first || !all) return {};
    return *all + static_cast<double>(chunks - some) * (*all - *first) / static_cast<double>(some - some / 2);
}

std::optional<double> trials::run(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes) {
    const auto [known, is_new] =
        known_.try_emplace(fmt::format("{} {} {} {}", key_of(c.what.stages), lanes, chunk, bytes));
    if (!is_new) return known->second;
    if (left_ <= 0 || c.cost.messages(static_cast<double>(bytes), chunk) > policy.most_messages) return {};
    const rule how{.up_to = bytes, .lanes = lanes, .chunk = chunk, .stages = c.what.stages};
    const simulation made =
        simulate(machine_, how, c.cost.what(), bytes, {.burst = burst_, .reproducible = reproducible_});
    left_ -= made.shares + policy.shares_of_message * made.messages;
    return known->second = made.time;
}

}  // namespace terrace::detail
