#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace terrace::detail {

/// All numbers of the planner that are choices and not formulas, each with its meaning on a real machine. Formulas are
/// documented at the functions that use them, and in docs/reference/cost-model.md.
struct planner_policy {
    static constexpr std::int64_t kib = 1024;

    // ---- sizes ----

    /// Sizes for which rules are made: powers of two, from a cache line to the size beyond which nothing changes [B].
    /// Longer vectors use the last rule.
    std::int64_t smallest_size = 64, largest_size = std::int64_t{1} << 30;
    constexpr std::size_t sizes() const noexcept {
        return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(largest_size / smallest_size)));
    }
    constexpr std::int64_t size(std::size_t i) const noexcept { return smallest_size << i; }

    // ---- processors, if the cluster file gives no rate (planner/figures) ----

    /// Bytes that a rank reduces per second [B/s]. A core streams about 24 GB/s (docs/measurements/one-node.md) and a
    /// reduction reads two operands and writes one; a GPU streams at least 600 GB/s.
    double core_reduces = 8e9, gpu_reduces = 200e9;
    /// Time until a rank sees the flag of a peer in shared memory, as a fraction of a message's start-up
    /// (docs/measurements/one-node.md).
    double flag_of_latency = 1.0 / 3;

    // ---- lanes and chunks (planner/tuning) ----

    /// Preferred length of the largest message between nodes of a chunk, the best for the wire
    /// (docs/measurements/large-messages.md) [B]. Longer messages are better if a start-up or an overhead is long for
    /// the bandwidth, shorter ones if many ranks pass a vector on: lengths double up to `message_range` times as much,
    /// and halve down to a page.
    std::int64_t message_length = 48 * kib, message_range = 8;
    /// Preferred length of the largest part that a rank works on, if a stage stays in shared memory: it fits a core's
    /// cache, which prices do not model (docs/measurements/one-node.md) [B].
    std::int64_t shard_length = 256 * kib;
    /// Chunks in flight. Lanes that meet on a link keep step and leave other links idle; four lanes compensate for
    /// this. Twelve were slower by 5 % (docs/measurements/before-the-design.md).
    int lanes = 4;
    /// Chunks in flight if each needs a slot of shared memory on the way from or to a root, if shares are unequal, or
    /// if dimensions of a torus take turns, so messages of several lengths are in flight
    /// (docs/measurements/machines-not-here.md).
    int many_lanes = 16;
    /// Maximum number of chunks in flight on other ways from or to a root, and in a plan. A chunk occupies one or two
    /// ranks at a time, so a long latency needs many chunks to keep links busy.
    int most_lanes = 64;
    /// A gain below this factor does not justify more lanes, a less usual chunk or more parts.
    double worth_it = 1.01;

    // ---- candidates ----

    /// Maximum number of groupings of levels, and of candidates. Beyond it, only the first ones and those with a stage
    /// per level are considered. Up to seven levels all are.
    std::size_t most_candidates = 2000;
    /// Unequal shares are multiples of 1 / 60 of the largest: 60 is divisible by 2 to 6, 10, 12, 15, 20 and 30.
    double share_parts = 60;
    /// Maximum number of parts of the vector that are distributed among the orders of a torus's dimensions.
    int most_route_shares = 24;
    /// Maximum number of peers with which a rank exchanges data at a time, since its queues are finite.
    int most_exchanges_at_once = 1024;

    // ---- choice (planner/choose) ----

    /// Times within this factor count as equal: prices, simulations and measurements agree no better
    /// (docs/measurements/predictions.md).
    double equal = 1.02;
    /// Maximum number of candidates that are simulated, the cheapest by price.
    std::size_t most_trials = 48;
    /// Maximum work of all simulations for one collective, times the machine's ranks: instructions, and new shares of
    /// links. Work is counted and not timed, so a machine has only one plan (docs/measurements/planning.md). Each size
    /// may use 1 / parts_of_work of the work that the smaller sizes left.
    std::int64_t most_simulated = 16'000'000, parts_of_work = 4;
    /// The ratio of a call's simulated time to its price is assumed for calls up to this many times as long.
    std::int64_t ratio_holds = 4;
    /// Chunks that are simulated, at least two for each lane. Later chunks cost as much as the later half of these.
    int simulated_chunks = 16;

    // ---- samples (planner/samples, schedule/group_messages) ----

    /// Groups up to this size are priced position by position, and machines up to this size rank by rank.
    int told_apart = 64;
    /// Groups above large_group are read from few positions only, if three positions show that all do the same. Above
    /// largest_group, the planner only considers algorithms of this kind, or with one neighbour per position.
    int large_group = 32, largest_group = 16384;
};

/// The values in use. Only tests change them, while no plan is being made.
inline constinit planner_policy policy;

}  // namespace terrace::detail
