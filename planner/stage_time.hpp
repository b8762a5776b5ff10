#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/wire.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

// The load that a stage puts on links and processors (planner/stage_load counts it), and the time that this costs. All
// of it is a function of N, the bytes of the vector: [s/B] is meant per byte of the vector, and a part is one of the
// vector. docs/reference/cost-model.md has the model as a whole.

/// Times that differ by less than this part are the same number, rounded.
inline constexpr double rounding = 1e-6;

// ---- loads ----

/// Messages of one size that a rank sends or receives in one phase.
struct message_load {
    float part = 0;                ///< size of one message; single precision, so that equal sizes compare equal
    float overhead = 0;            ///< o: processor time of one segment at one end [s]
    float segment = wire_segment;  ///< bytes of its longest piece; 0: it is not cut
    double count = 0;

    /// Segments of one message: ceil(part N / segment).
    double segments(double bytes) const { return segment > 0 ? std::ceil(part * bytes / segment) : 1; }
    /// Processor time of one end of all these messages: count o segments [s].
    double time(double bytes) const { return count * overhead * segments(bytes); }

    friend auto operator<=>(const message_load&, const message_load&) = default;
};

/// The work of a rank's processor in one phase.
struct processor_load {
    std::vector<message_load> sent, received;  ///< sorted
    float memory = 0;                          ///< adds up what arrives, and copies inside a node [s/B]

    /// Returns the time: max(sent, received) + memory N [s]. Sending and receiving go hand in
    /// hand, so that an exchange of one message each way costs o once.
    double time(double bytes) const;

    friend auto operator<=>(const processor_load&, const processor_load&) = default;
};

/// Hops of one kind around a ring.
struct ring_hop {
    double latency = 0;  ///< of one hop [s]
    double wire = 0;     ///< on the wire [s/B]
    message_load message;
    double memory = 0;        ///< copies it and adds it up [s/B]
    int count = 0;            ///< in the whole ring but for one hop, which no part goes over
    std::vector<int> within;  ///< of these, in the longest domain of each height
};

/// Use of one direction of a link.
struct link_use {
    int link = 0;  ///< of link_rows
    double vectors = 0;
    double time = 0;  ///< that they take at the rate for this stage's data [s/B]
};

/// The load of one phase, which is one direction (up or down) of one stage over the whole machine.
struct phase_load {
    double startups = 0;                      ///< latencies that wait for one another [s]
    double wire = 0;                          ///< of the busiest link in each step, summed [s/B]
    double headers = 0;                       ///< of messages on the link that has the most in each step, summed [s]
    std::vector<ring_hop> lap;                ///< of a part around a ring over several levels; empty: no such ring
    double held_startups = 0, held_wire = 0;  ///< those of steps in which one rank takes part, at most
    double in_turn = 0;                 ///< what a rank sends over links of a torus, one message after the other [s/B]
    double overlap = 0;                 ///< of that, saved by messages that are in a lane's request slots together [s]
    std::vector<link_use> links;        ///< ascending; those above samples have all that passes them
    std::vector<processor_load> loads;  ///< the different ones
    std::vector<int> load_of_sample;    ///< index into `loads`
    std::vector<double> ranks;          ///< number of ranks with each load
    std::vector<std::vector<double>> times;  ///< of each load, at each size of planner_policy [s]
    std::vector<int> slowest;                ///< loads that are the longest at one of these sizes
    std::vector<message_load> path;          ///< the largest message of each step: they wait for one another
    double path_memory = 0;                  ///< copies these and adds them up [s/B]
    bool in_memory = true;      ///< processors move all data themselves: links and processors are busy at once
    bool side_by_side = false;  ///< several rings: while one is on the wire, processors work for others
    double network_part = 0;    ///< the largest message between nodes
    int sent_at_once = 0;       ///< messages between nodes that a rank sends in one step, at most
    double largest_part = 0;    ///< the largest message
};

/// The phases that a stage has in a collective, in no order. Candidates that have the stage at the same place share
/// them.
struct stage_price {
    std::vector<std::shared_ptr<const phase_load>> phases;

    /// Time of the stage alone [s].
    double time(double bytes) const;
    /// Vectors through its busiest link, summed over the phases.
    double busiest_link() const;
};

/// Sets the loads of a phase from those of the samples, each of which stands for so many ranks.
void set_loads(phase_load& p, std::vector<processor_load> of_samples, std::span<const double> weights);

// ---- times of a phase, each for a vector of so many bytes [s] ----

/// Processor time of the rank that has the most to do.
double slowest_rank_time(const phase_load& p, double bytes);

/// Processor time that shows: of the rank with the most to do, or of the largest message of each step, one after the
/// other. A chain occupies no rank for long, but what its ranks do adds up along it.
double rank_time(const phase_load& p, double bytes);

/// Returns the time on wires: max(wire N, in_turn N - overlap). Long messages take all request slots of a lane and go
/// one after the other, even over different links of a torus.
double wire_time(const phase_load& p, double bytes);

/// Steps that all ranks do together: startups, wire and processor. Wire and processor add up, or overlap where
/// processors move the data themselves. Of messages that a rank sends at once, the header of one is on the link while
/// the processor works for the next: the longer of the two counts for all, the other one for one message.
double step_time(const phase_load& p, double bytes);

/// One part around a ring over several levels: sum over hops of latency, wire, o and memory. Over some hops in a row,
/// those inside the longest domain of a height, a part may as well wait in line before a slower hop; the longest of
/// these counts. 0 without such a ring. (Around a ring, in the cost model.)
double lap_time(const phase_load& p, double bytes);

/// Returns the time of the phase: max(step_time, lap_time). Either the busiest link passes all parts, or one part is
/// under way the longest.
double phase_time(const phase_load& p, double bytes);

/// Latencies of the phase that wait for one another: of its steps, or of a lap around a ring if that is longer.
double startup_time(const phase_load& p);

/// The part of phase_time in which one rank takes part, at most. A chunk keeps the rank's lane for so long.
double held_time(const phase_load& p, double bytes);

}  // namespace terrace::detail
