#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "plan/plan_data.hpp"
#include "planner/simulate/links.hpp"
#include "schedule/chunk_order.hpp"
#include "schedule/lane_code.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail::sim {

/// An instruction with only the data that a simulation needs.
struct sim_instr {
    action what = action::copy;
    std::uint16_t phase = 0;
    std::int32_t peer = -1;  ///< of messages the rank; of stages an index into sim_programs::instances
    double bytes = 0;        ///< of a message; of other instructions, read and written by a processor
    double again = 0;        ///< of the second round, for stages in two rounds
};

/// One rank's program for one chunk.
struct sim_program {
    std::vector<sim_instr> instrs;
    lane_code order;
    std::vector<phase> phases;
    std::vector<std::uint32_t> of_phase;  ///< by phase: number of its instructions
};

/// A stage in shared memory, run by some ranks of a node.
struct stage_instance {
    std::size_t ranks = 0;
    int rounds = 1;                             ///< of work; each begins when all ranks have finished the one before
    bool closes = false;                        ///< all ranks reduce, so each waits for the others before it leaves
    double latency = 0;                         ///< of waiting for the flags of the others [s]
    std::vector<std::pair<int, double>> links;  ///< links, and the bytes that pass each
};

/// The programs of all ranks for a vector of `count` elements, or blocks of `count` elements.
struct sim_programs {
    std::vector<sim_program> of_rank;
    std::vector<stage_instance> instances;
    std::int64_t instrs = 0;  ///< of all ranks
};

/// Programs with all bytes scaled by a factor: for vectors of another length, exact except for rounding to elements.
struct scaled_programs {
    std::shared_ptr<const sim_programs> of{};
    double factor = 1;
};

/// The programs of all chunks of a call.
struct call_programs {
    chunk_order order;
    scaled_programs full{}, tail{};  ///< full: nothing if there is one chunk

    const scaled_programs& of(std::int64_t chunk) const noexcept { return order.is_tail(chunk) ? tail : full; }
    std::int64_t instrs() const noexcept {
        return (full.of ? (order.chunks - 1) * full.of->instrs : 0) + tail.of->instrs;
    }
};

/// Maximum number of steps of all ranks and chunks in a simulation: instructions, counting each segment of a message.
inline constexpr std::int64_t most_simulated = 16'000'000;

/// Returns the number of segments of a message, at most most_simulated + 1.
std::uint32_t segments_of(const hierarchy& machine, double bytes);

/// Returns the programs of all ranks for float32, in place, with root 0.
/// @param slot_bytes longest vector that stages in shared memory accept; 0: any
/// @param factor, chunks scale and number of the programs that run   @param most steps, at most most_simulated
/// @throws plan_error if `chunks` chunks have more than `most` steps, or a stage cannot be run
sim_programs programs_of(const hierarchy& machine, const rule& how, collective what, std::int64_t count,
                         std::int64_t slot_bytes, bool reproducible, const link_loads& links, double factor,
                         std::int64_t chunks, std::int64_t most = most_simulated);

}  // namespace terrace::detail::sim
