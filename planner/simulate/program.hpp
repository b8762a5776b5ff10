#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/recipe.hpp"
#include "planner/simulate/links.hpp"
#include "schedule/schedule.hpp"

namespace terrace {

/// Bytes of an element, as simulated.
constexpr std::int64_t element = 4;

/// What a simulation needs of an instruction.
struct sim_instr {
    action what = action::copy;
    std::uint16_t phase = 0;
    bool follows = false;        ///< a send that waits for those before it (follow_ups)
    std::int32_t peer = -1;      ///< of messages a rank, of stages an index into sim_programs::meetings
    std::uint32_t segments = 1;  ///< that a message is cut into
    double bytes = 0;            ///< of a message; of anything else, that a processor reads and writes
    double again = 0;            ///< of a stage in two rounds, those of the second
    std::uint32_t waits = 0, first_successor = 0, successors = 0;
};

struct sim_program {
    std::vector<sim_instr> instrs;
    std::vector<std::uint32_t> successors;
    std::vector<std::uint32_t> sends, recvs, stages, locals;  ///< in program order
    std::vector<phase> phases;
    std::vector<std::uint32_t> of_phase;  ///< how many instructions each has
};

/// A native stage of some ranks of a node.
struct meeting {
    std::size_t ranks = 0;
    int rounds = 1;                             ///< of work, each after all have come so far
    bool closes = false;                        ///< nobody leaves before all are through
    double latency = 0;                         ///< to see how far the others are [s]
    std::vector<std::pair<int, double>> links;  ///< bytes through each
};

/// The programs of all ranks for a vector of `count` elements, or blocks of that many.
struct sim_programs {
    std::vector<sim_program> of_rank;
    std::vector<meeting> meetings;
    std::int64_t steps = 0;  ///< instructions, but messages by their segments
};

/// The sum of all ranks' and chunks' steps that a simulation may have.
inline constexpr std::int64_t most_simulated = 16'000'000;

/// Of float32, in place, root 0. @param slot_bytes of a vector that native stages can take
/// @throws plan_error if `chunks` chunks of that have more than most_simulated steps, or stages cannot be run
sim_programs programs_of(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                         std::int64_t slot_bytes, const link_loads& links, std::int64_t chunks);

/// Ranks whose messages and native stages go through memory they share; empty where none do.
std::vector<int> memory_domains(const hierarchy& machine);

}  // namespace terrace
