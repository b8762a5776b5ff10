#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/recipe.hpp"
#include "planner/simulate/links.hpp"
#include "schedule/slice.hpp"

namespace terrace {

/// What one chunk does in one stage on one rank: from its first instruction to its last.
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
    double time = 0;  ///< until the last rank is through [s]
    slicing chunks;
    int lanes = 1;
    std::int64_t messages = 0;       ///< that travelled, in segments
    std::int64_t shares = 0;         ///< of links that these got, again and again: what the simulation took
    std::vector<link_load> links;    ///< both directions of every link
    double interval = 0;             ///< of the links' histories [s]
    std::vector<double> processors;  ///< by rank: time it had something to do [s]
    std::vector<stage_span> spans;   ///< of all ranks, as they ended
};

struct simulation_options {
    std::int64_t slot_bytes = 0;  ///< of the plan that the rule is of; 0: a plan of this rule alone
    double burst = 0;  ///< bytes that the shaper of each network link lets pass at once: a full bucket of tokens
    std::function<void(double)> progress = {};  ///< called now and then with the part that is done
};

/// Runs one call of `bytes` (of all blocks together) by a rule: the programs of all ranks that the executor would run,
/// in its lanes and request slots, in place, with root 0, over the links of the machine.
/// * A segment of a message keeps its sender busy for o, waits its turn behind those that go the same way between the
///   same two ranks, shares all links between them with what else passes there (flows), and is received alpha later;
///   the last o of that the receiver is busy with it, later if it has other things to do. A rank sends with one hand
///   and receives and adds up with the other, as in the cost model, and needs gamma for what it adds up, and 2/3 of it
///   for what it copies (inside a node).
/// * A native stage waits for all its ranks, then each does what the cost model charges for it, while each link passes
///   what is read over it: one stage's bytes after another's, sharing the link with messages.
/// @throws plan_error if there are more than most_simulated steps, or a stage cannot be run
simulation simulate(const hierarchy& machine, const rule& how, collective what, std::int64_t bytes,
                    const simulation_options& options = {});

}  // namespace terrace
