#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace terrace::detail {

/// All numbers of the planner that are choices and not formulas, each with what it means on a real machine. Formulas
/// stand with the functions that use them, and in docs/reference/cost-model.md.
struct planner_policy {
    static constexpr std::int64_t kib = 1024;

    // ---- sizes ----

    /// Sizes that rules are made for: the powers of two from a cache line to where nothing changes any more [B]. Longer
    /// vectors follow the last rule.
    std::int64_t smallest_size = 64, largest_size = std::int64_t{1} << 30;
    constexpr std::size_t sizes() const noexcept {
        return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(largest_size / smallest_size)));
    }
    constexpr std::int64_t size(std::size_t i) const noexcept { return smallest_size << i; }

    // ---- processors, where the cluster file does not say it (planner/figures) ----

    /// Bytes that a rank adds up per second [B/s]. A core streams about 24 GB/s (docs/measurements/one-node.md) and a
    /// reduction reads two operands and writes one; a GPU streams at least 600 GB/s.
    double core_reduces = 8e9, gpu_reduces = 200e9;
    /// Time until a rank sees the flag of a peer in shared memory, as a part of a message's start-up
    /// (docs/measurements/one-node.md).
    double flag_of_latency = 1.0 / 3;

    // ---- lanes and chunks (planner/tuning) ----

    /// Length of the largest message between nodes that chunks aim at: what the wire likes best
    /// (docs/measurements/large-messages.md) [B]. Longer ones pay off where a start-up or an overhead is long for the
    /// bandwidth, shorter ones where many ranks pass a vector on: lengths double up to so many times as much, and halve
    /// down to a page.
    std::int64_t message_length = 48 * kib, message_range = 8;
    /// The same of the largest part that a rank works on, where a stage stays in shared memory: it fits a core's cache,
    /// of which prices know nothing (docs/measurements/one-node.md) [B].
    std::int64_t shard_length = 256 * kib;
    /// Chunks in flight. Lanes that meet on a link keep step and leave other links idle, which four of them make up
    /// for; twelve were slower by 5 % (docs/measurements/before-the-design.md).
    int lanes = 4;
    /// Chunks in flight where each needs a slot of shared memory on the way from or to a root, where shares are
    /// unequal, and where dimensions of a torus take turns, so that messages of several lengths are under way
    /// (docs/measurements/machines-not-here.md).
    int many_lanes = 16;
    /// Chunks in flight on other ways from or to a root, at most: a chunk is with one or two ranks at a time, and a
    /// long latency needs many of them to keep links busy. A plan may have as many.
    int most_lanes = 64;
    /// A gain below this factor is not worth more lanes, a less usual chunk or more parts.
    double worth_it = 1.01;

    // ---- candidates ----

    /// Groupings of levels that are looked at, and candidates; of more the first ones, and a stage per level. All of up
    /// to seven levels.
    std::size_t most_candidates = 2000;
    /// Shares of unequal siblings are multiples of a part this small: 1 / 60 divides by 2 to 6, 10, 12, 15, 20 and 30.
    double share_parts = 60;
    /// Parts into which the vector is divided among the orders of a torus's dimensions, at most.
    int most_route_shares = 24;
    /// A rank exchanges data with no more ranks than this at a time: its queues are not endless.
    int most_exchanges_at_once = 1024;

    // ---- choice (planner/choose) ----

    /// Times within this factor are equal: prices, simulations and measurements agree no better
    /// (docs/measurements/predictions.md).
    double equal = 1.02;
    /// The cheapest candidates by price that are simulated, at most.
    std::size_t most_trials = 48;
    /// Work of all simulations for one collective, times the machine's ranks: instructions, and new shares of links.
    /// Counted and not timed, so that a machine has one plan (docs/measurements/planning.md). Each size may use such a
    /// part of what the smaller ones have left.
    std::int64_t most_simulated = 16'000'000, parts_of_work = 4;
    /// The ratio of a call's simulated time to its price holds for calls up to so many times as long.
    std::int64_t ratio_holds = 4;
    /// Chunks that are simulated, and at least two for each lane: later ones cost what the later half of these cost.
    int simulated_chunks = 16;

    // ---- samples (planner/samples, schedule/group_messages) ----

    /// Positions of groups up to this size are told apart, and all ranks of machines up to this size.
    int told_apart = 64;
    /// Programs of groups beyond the first size are not read position by position where three positions show that all
    /// do the same; beyond the second only then, or where each position has one neighbour.
    int large_group = 32, largest_group = 16384;
};

/// The numbers in use. Tests alone change them, while nothing is planned.
inline constinit planner_policy policy;

}  // namespace terrace::detail
