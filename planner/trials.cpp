#include "planner/trials.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"

namespace terrace::detail {

namespace {

// Returns the work of all simulations. They do not model rates of NCCL or MPI for device buffers. Prices do not model
// partial results, so only simulations show the time of reproducible calls.
std::int64_t work_for(const hierarchy& machine, bool reproducible) {
    if (std::ranges::any_of(machine.levels, [](const level& l) { return l.nccl || l.mpi; })) return 0;
    return policy.most_simulated / machine.ranks() * (reproducible ? static_cast<std::int64_t>(policy.most_trials) : 1);
}

// Returns the work of making all ranks' programs, without their steps. Each rank's composer reads all ranks, and one
// rank costs an eighth of a step (docs/measurements/planning.md).
std::int64_t making(const hierarchy& machine) noexcept { return std::int64_t{machine.ranks()} * machine.ranks() / 8; }

}  // namespace

trials::trials(const hierarchy& machine, bool reproducible)
    : machine_(machine), reproducible_(reproducible), left_(work_for(machine, reproducible)) {}

std::optional<double> trials::time(const priced_candidate& c, const tuning& how, std::int64_t bytes, double most) {
    seen& last = last_[&c];
    const bool is_alike = last.is_cut == (how.chunk > 0) && bytes <= policy.ratio_holds * last.bytes;
    if (is_alike && how.time * last.ratio > most * policy.equal) return std::numeric_limits<double>::infinity();
    const std::optional<double> time = extrapolated(c, how, bytes, most);
    if (time) last = {bytes, how.chunk > 0, std::min(*time, most) / how.time};
    return time;
}

std::optional<double> trials::extrapolated(const priced_candidate& c, const tuning& how, std::int64_t bytes,
                                           double most) {
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
    if (known != known_.end() && (!std::isinf(known->second.time) || most <= known->second.most))
        return known->second.time;
    const std::int64_t budget = left_ - for_later_;
    const double messages = c.cost.messages(static_cast<double>(bytes), how.chunk);
    if (making(machine_) > budget || messages > static_cast<double>(budget)) return {};
    const rule by{.up_to = bytes, .lanes = how.lanes, .chunk = how.chunk, .stages = c.what.stages};
    const std::int64_t slot = how.chunk == 0 ? 2 * policy.largest_size : 0;  // one piece, with blocks rounded up
    if (!cache_) cache_.emplace(machine_);
    const std::size_t programs = cache_->programs.size();
    simulation made;
    try {
        made = simulate(machine_, by, c.cost.what(), bytes,
                        {.slot_bytes = slot,
                         .reproducible = reproducible_,
                         .most_steps = budget,
                         .most_shares = budget,
                         .until = most,
                         .cache = &*cache_});
    } catch (const plan_error&) {
        return {};  // the programs exceed the work, though the number of messages does not
    }
    left_ -= made.work + static_cast<std::int64_t>(cache_->programs.size() - programs) * making(machine_);
    if (made.work > budget && std::isinf(made.time)) return {};
    known_[key] = {made.time, most};
    return made.time;
}

}  // namespace terrace::detail
