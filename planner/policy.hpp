#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace terrace::detail {

/// All numbers of the planner that are choices and not formulas, with what each of them was set by. Formulas stand with
/// the functions that use them, and in docs/reference/cost-model.md.
struct planner_policy {
    static constexpr std::int64_t kib = 1024;

    // ---- sizes ----

    /// Sizes that rules are made for: the powers of two from the smallest to the largest one [B]. Longer vectors follow
    /// the last rule: from 1 GiB on nothing changes any more.
    std::int64_t smallest_size = 8, largest_size = std::int64_t{1} << 30;
    constexpr std::size_t sizes() const noexcept {
        return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(largest_size / smallest_size)));
    }
    constexpr std::int64_t size(std::size_t i) const noexcept { return smallest_size << i; }
    /// Between two of these sizes, rules may change at multiples of so small a part of the larger one. Needed where
    /// baselines cross in between and nothing beats both.
    std::int64_t finest_parts = 256;

    // ---- processors (planner/devices) ----

    /// Bytes that a rank adds up per second where the cluster file does not say it [B/s]. A core streams about 24 GB/s
    /// (docs/measurements/one-node.md) and a reduction reads two operands and writes one; a GPU streams at least
    /// 600 GB/s.
    double core_reduces = 8e9, gpu_reduces = 200e9;
    /// Bytes that are read and written for each byte that is added up: two read, one written.
    double accesses_of_reduction = 3;
    /// Time until a rank sees the flag of a peer in shared memory, as a part of a message's start-up
    /// (docs/measurements/one-node.md).
    double flag_of_latency = 1.0 / 3;

    // ---- lanes and chunks (planner/tuning) ----

    /// Vectors up to this size are not cut: start-ups dominate (docs/measurements/small-messages.md) [B].
    std::int64_t largest_uncut = 64 * kib;
    /// Lengths of the largest message between nodes that chunks aim at, those that are preferred where times are equal
    /// first [B]. 48 KiB is what the wire likes best (docs/measurements/large-messages.md); longer messages pay off
    /// where a start-up or an overhead is long for the bandwidth.
    std::array<std::int64_t, 6> message_lengths{48 * kib, 96 * kib, 192 * kib, 384 * kib, 32 * kib, 16 * kib};
    /// The same of the largest part that a rank works on, where a stage stays in shared memory: it fits a core's cache,
    /// of which prices know nothing. Vectors of two such chunks and more are always cut
    /// (docs/measurements/one-node.md).
    std::array<std::int64_t, 1> shard_lengths{256 * kib};
    /// Chunks are multiples of a page [B].
    std::int64_t chunk_unit = 4 * kib;
    /// Chunks in flight, at most. More than three were slower wherever that was measured: 12 cost 5 %
    /// (docs/measurements/before-the-design.md).
    int lanes = 3;
    /// Lanes where dimensions of a torus take turns. A lane's messages then have several lengths at a time, and one
    /// link waits for another: more chunks in flight, each further than the next, fill those gaps
    /// (lane_machine::lets_next_begin, docs/measurements/machines-not-here.md).
    int lanes_of_turns = 12;
    /// Lanes of collectives with a root. A chunk is with one or two ranks at a time there, and a long latency needs
    /// many chunks to keep links busy: as many as a plan may have, or fewer where each lane needs a slot of shared
    /// memory.
    int lanes_of_root = 64, lanes_of_root_in_memory = 16;
    /// Lanes where no simulation says what they lose to one another, and ranks have cores to themselves. In simulations
    /// of 64 to 192 ranks six lanes were 0 to 26 % faster than three, and eight hardly faster than six; four, where
    /// each needs a slot of shared memory, gained two thirds of that (docs/explanation/planning.md).
    int untried_lanes = 6, untried_lanes_in_memory = 4;
    /// A gain below this factor is not worth another lane or a less usual chunk.
    double worth_a_lane = 1.01;
    /// With a root, stages of mode scatter in lanes, and algorithms that hinder lanes, must be predicted faster by this
    /// factor than other stages of mode root: ways up and down, or messages to several ranks, share links. In
    /// simulations of `two-kinds` and `three-three-one` scatters took up to 18 % longer than predicted, in those of
    /// `uneven-racks` trees up to 25 %, and choices that were predicted about equal were 5 to 25 % slower.
    double hindered_with_root = 1.2;

    // ---- candidates ----

    /// Groupings of levels that are looked at; of more the first ones, and a stage per level. All of up to seven
    /// levels.
    std::size_t most_shapes = 512;
    /// After so many candidates only those with a stage per level are added: machines of more than seven levels.
    std::size_t most_candidates = 2000;
    /// Shares of unequal siblings are multiples of a part this small: 1 / 60 divides by 2 to 6, 10, 12, 15, 20 and 30.
    double share_parts = 60;
    /// Those of ranks with unequal NICs are multiples of such a part of the largest.
    double share_steps = 12;
    /// The stage inside the node of a two-level baseline is the fastest one at this size, where such schemes are in
    /// use: it is one algorithm, not one per size [B].
    double two_level_size = 1 << 20;
    /// An algorithm must be cheaper than an earlier one by more than this part: less is rounding.
    double cheaper = 1e-6;
    /// A rank exchanges messages with no more ranks than this at a time.
    int most_exchanges_at_once = 1024;
    /// Shares of routes around a torus: at most this many, and fewer where that keeps the busiest link busy for at most
    /// this much longer (docs/reference/cost-model.md, Routes).
    int most_route_shares = 24;
    double enough_of_routes = 1.01;

    // ---- screening and picking (planner/screen, planner/pick) ----

    /// A candidate whose lower bound is this many times the best price is not tuned.
    double far_off = 1.5;
    /// Blocks of reduce_scatter and allgather pass through one rank of each node up to this size, all blocks of a rank
    /// together [B]: at 64 KiB that takes 0.60 to 0.88 of the time, at 512 KiB 0.85 to 1.04, and at 4 MiB up to 1.07,
    /// since the other ranks are idle (docs/measurements/random-clusters.md).
    std::int64_t largest_through_one = 1024 * kib;
    /// Predictions within this factor are equal: closed forms and measurements agree no better
    /// (docs/measurements/predictions.md).
    double equal = 1.02;
    /// Among equally fast candidates those are preferred that occupy processors at most this many times as long as the
    /// one that does it least.
    double similar_effort = 1.25;
    /// Times that differ by less than this part are the same number, rounded.
    double rounding = 1e-9;

    // ---- simulation (planner/trials, planner/simulated_choice) ----
    // How much is "hindered" and "alike" was set with three-racks in view (docs/explanation/planning.md).

    /// Lanes are in each other's way where a simulation is longer than the price by more than this factor.
    double hindered = 1.05;
    /// Other candidates are simulated while their price is at most so many times the fastest simulation, which is about
    /// the least that a simulation comes to; and at most this many of them.
    double above_simulated = 1.1;
    std::size_t most_trials = 16;
    /// Simulations this close say nothing about which candidate is faster.
    double alike = 1.05;
    /// Where nothing can be simulated, something that hinders lanes less may cost processors so many times as much.
    double untried_effort = 2;
    /// Messages of one simulation, and the work of all simulations for one collective, counted in shares of links, of
    /// which a message by itself counts for so many. Counted and not timed, so that a machine has one plan. Plans for
    /// 50 to 100 ranks then take about a second (docs/measurements/planning.md).
    double most_messages = 8'000;
    std::int64_t simulated_shares = 2'000'000, shares_of_message = 16;
    /// That work for alltoall, which has the longest simulations: all ranks send to all others at once.
    std::int64_t simulated_shares_of_alltoall = 800'000;
    /// For alternatives a size may use one part in so many of what the smaller ones have left. Else 128 KiB to 1 MiB
    /// used all of it.
    std::int64_t sizes_to_come = 4;
    /// Times that work for a plan for options::reproducible, which somebody asks for: prices say little there.
    std::int64_t reproducible_trials = 16;
    /// Rounds of all lanes that are simulated: later chunks cost what the later half of these cost.
    int simulated_rounds = 6;

    // ---- samples (planner/layout, planner/pattern) ----
    // Prices of samples and of all ranks differ by up to 8 %, mostly not at all (docs/reference/cost-model.md).

    /// All ranks of machines up to this size are samples.
    int sampled_whole = 64;
    /// On machines with more samples than this, all but the first domain of each shape have one sample.
    std::size_t many_samples = 100;
    /// A root scatters to, and gathers from, groups up to this size: van de Geijn's broadcast is for few ranks, and the
    /// messages of a ring's scatter grow with the square.
    int largest_scattered = 128;
    /// Positions with unequally many ranks are told apart in groups up to this size.
    int unequal_positions = 256;
    /// Groups beyond this size are not run position by position where three positions show that all do the same.
    int large_group = 32;
    /// Larger groups are not run position by position where two smaller groups show a ring, a chain, a star or a mesh.
    int huge_group = 1024;
    /// Groups beyond this size are looked at only where few positions show what all do.
    int largest_group = 16384;
};

inline constexpr planner_policy policy;

}  // namespace terrace::detail
