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
    double time = 0;  ///< when the last rank completes [s]; infinite if the simulation was stopped before
    slicing chunks;
    int lanes = 1;
    std::int64_t messages = 0;       ///< segments of messages
    std::int64_t work = 0;           ///< work of the simulation: instructions, and new shares of links
    std::vector<link_load> links;    ///< both directions of every link
    double interval = 0;             ///< of the links' histories [s]
    std::vector<double> processors;  ///< by rank: busy time of its processor [s]
    std::vector<stage_span> spans;   ///< of all ranks, in the order of their ends
};

namespace sim {
struct sim_programs;
}

/// Data shared by simulations that differ only in rule and size, which make up most of a short simulation's cost.
/// Programs of one length are scaled to all lengths in which each rank has at least an element.
struct simulation_cache {
    explicit simulation_cache(const hierarchy& machine) : links(machine, false) {}

    link_loads links;
    std::map<std::string, std::shared_ptr<const sim::sim_programs>> programs;  ///< by stages and elements
};

struct simulation_options {
    std::int64_t slot_bytes = 0;   ///< detail::slot_bytes of the rule's plan; 0: the plan has no other rule
    bool reproducible = false;     ///< as options::reproducible, with ranks in the plan's order
    std::int64_t most_steps = 0;   ///< limit below most_simulated, to save time; 0: most_simulated
    std::int64_t most_shares = 0;  ///< limit of new shares of links, after which the simulation stops; 0: no limit
    double until = std::numeric_limits<double>::infinity();  ///< stops longer calls at this time [s]
    /// May be null. With a cache, the result has neither loads of links nor spans of stages, and most_steps limits only
    /// programs that are not yet in the cache.
    simulation_cache* cache = nullptr;
    std::function<void(double)> progress = {};  ///< called from time to time with the fraction done
};

/// Simulates one call of `bytes` (of all blocks together) by a rule, in place and with root 0. It runs the executor's
/// programs on all ranks, in their lanes and request slots (lane_machine), over the links of the machine.
/// * A segment of a message occupies its sender for o. It waits for earlier segments between the same two ranks, shares
///   all links of its path with other traffic (flows), and is received alpha later. The receiver is occupied for the
///   last o of that time, or later if it is busy.
/// * A rank sends in parallel to its other work, as in the cost model. Each byte that it reduces costs gamma, and each
///   byte that it copies inside a node costs 2/3 gamma.
/// * A stage in shared memory waits for all its ranks. Then each rank does the work of the cost model, and each link
///   passes the data that are read over it: one stage after another, in parallel to messages.
/// @throws plan_error if there are more than most_simulated steps (or options.most_steps), or a stage cannot be run
simulation simulate(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                    const simulation_options& options = {});

}  // namespace terrace::detail
