#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan_data.hpp"
#include "planner/simulate/links.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

/// The time that one chunk spends in one stage on one rank, from its first instruction to its last.
struct stage_span {
    double begin = 0, end = 0;  ///< [s]
    int rank = 0;
    int lane = 0;
    std::int64_t chunk = 0;
    int stage = 0;
    bool down = false;
    int route = 0;  ///< phase::route
};

struct simulation {
    double time = 0;  ///< until the last rank has completed [s]; infinite if it was given up before
    slicing chunks;
    int lanes = 1;
    std::int64_t messages = 0;       ///< segments of messages
    std::int64_t work = 0;           ///< that it took: instructions, and new shares of links
    std::vector<link_load> links;    ///< both directions of every link
    double interval = 0;             ///< of the links' histories [s]
    std::vector<double> processors;  ///< by rank: time that its processor was busy [s]
    std::vector<stage_span> spans;   ///< of all ranks, in the order they ended
};

namespace sim {
struct sim_programs;
}

/// What simulations share that differ in rule and size alone: most of what a short one costs. Programs of one length
/// are scaled to all in which each rank has at least an element.
struct simulation_cache {
    explicit simulation_cache(const hierarchy& machine) : links(machine, false) {}

    link_loads links;
    std::map<std::string, std::shared_ptr<const sim::sim_programs>> programs;  ///< by stages and elements
};

struct simulation_options {
    std::int64_t slot_bytes = 0;   ///< detail::slot_bytes of the rule's plan; 0: the plan has no other rule
    bool reproducible = false;     ///< as options::reproducible, with ranks in the plan's order
    std::int64_t most_steps = 0;   ///< fewer than most_simulated, where time is short; 0: as many
    std::int64_t most_shares = 0;  ///< new shares of links, after which it is given up; 0: as many as it takes
    double until = std::numeric_limits<double>::infinity();  ///< gives a longer call up there [s]
    /// Null: none. With it, simulation has neither loads of links nor spans of stages. Steps are limited where programs
    /// are made, and not again where they are found.
    simulation_cache* cache = nullptr;
    std::function<void(double)> progress = {};  ///< called from time to time with the fraction that is done
};

/// Simulates one call of `bytes` (of all blocks together) by a rule, in place and with root 0. It runs the programs
/// that the executor would run on all ranks, in its lanes and request slots (lane_machine), over the links of the
/// machine.
/// * A segment of a message occupies its sender for o. It waits for earlier segments between the same two ranks, shares
///   all links of its path with other traffic (flows), and is received alpha later. For the last o of that time the
///   receiver is occupied, or later if it is busy.
/// * A rank sends beside its other work, as in the cost model. It needs gamma for each byte that it reduces, and 2/3 of
///   that for each byte that it copies inside a node.
/// * A stage in shared memory waits for all its ranks. Then each of them does the work that the cost model counts, and
///   each link passes the data that are read over it: those of one stage after those of another, beside messages.
/// @throws plan_error if there are more than most_simulated steps (or options.most_steps), or a stage cannot be run
simulation simulate(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                    const simulation_options& options = {});

}  // namespace terrace::detail
