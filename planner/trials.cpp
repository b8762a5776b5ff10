#include "planner/trials.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/partition.hpp"
#include "planner/policy.hpp"
#include "planner/simulate/rank_schedules.hpp"
#include "planner/simulate/simulate.hpp"

namespace terrace::detail {

namespace {

std::int64_t shares_for(collective what, bool reproducible) {
    const std::int64_t times = reproducible ? policy.reproducible_trials : 1;
    return (what == collective::alltoall ? policy.simulated_shares_of_alltoall : policy.simulated_shares) * times;
}

}  // namespace

bool moves_by_links(const hierarchy& machine) noexcept {
    return std::none_of(machine.levels.begin(), machine.levels.end(),
                        [](const level& l) { return l.nccl.has_value() || l.mpi.has_value(); });
}

trials::trials(const hierarchy& machine, collective what, bool reproducible)
    : machine_(machine),
      reproducible_(reproducible),
      left_(moves_by_links(machine) ? shares_for(what, reproducible) : 0) {}

std::optional<double> trials::time(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes) {
    const std::int64_t chunks = chunk == 0 ? 1 : div_ceil(bytes, chunk);
    const std::int64_t some = std::int64_t{policy.simulated_rounds} * lanes;
    if (chunks <= some) {
        const auto found = run(c, lanes, chunk, std::span(&bytes, 1));
        return found.empty() ? std::nullopt : std::optional(found.front());
    }
    const std::array sizes{some * chunk, some / 2 * chunk};
    const auto found = run(c, lanes, chunk, sizes);
    if (found.empty()) return {};
    const double later = static_cast<double>(chunks - some) / static_cast<double>(some - some / 2);
    return found[0] + later * (found[0] - found[1]);
}

// Returns how many lanes a call has chunks for: more of them change nothing.
int trials::lanes_used(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes) const {
    if (chunk == 0) return 1;
    const rule how{.lanes = lanes, .chunk = chunk, .stages = c.what.stages};
    const slicing slices = sim::slices_of(machine_, how, c.cost.what(), bytes, 0);
    return static_cast<int>(std::min<std::int64_t>(lanes, slices.chunks));
}

std::vector<double> trials::run(const priced_candidate& c, int lanes, std::int64_t chunk,
                                std::span<const std::int64_t> sizes) {
    const std::int64_t largest = sizes.front();
    lanes = lanes_used(c, lanes, chunk, largest);
    const auto [known, is_new] =
        known_.try_emplace(fmt::format("{} {} {} {}", key_of(c.what.stages), lanes, chunk, largest));
    if (!is_new && (known->second.empty() || known->second.size() >= sizes.size())) return known->second;
    if (left_ <= 0 || c.cost.messages(static_cast<double>(largest), chunk) > policy.most_messages) return {};
    const rule how{.up_to = largest, .lanes = lanes, .chunk = chunk, .stages = c.what.stages};
    const std::int64_t slot = chunk == 0 ? 2 * largest : 0;  // an uncut vector stays so with its blocks rounded up
    known->second.clear();
    for (const simulation& made :
         simulate(machine_, how, c.cost.what(), sizes,
                  {.slot_bytes = slot, .reproducible = reproducible_, .counts_loads = false, .known = &programs_})) {
        left_ -= made.shares + policy.shares_of_message * made.messages;
        known->second.push_back(made.time);
    }
    return known->second;
}

}  // namespace terrace::detail
