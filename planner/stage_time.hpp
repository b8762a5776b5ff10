#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/wire.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

// The load of a stage on links and processors (counted in planner/stage_load), and the time that it costs. All is a
// function of N, the bytes of the vector: [s/B] is per byte of the vector, and parts are fractions of the vector.
// docs/reference/cost-model.md describes the whole model.

/// Times with a smaller relative difference count as equal: the difference is due to rounding.
inline constexpr double rounding = 1e-6;

// ---- loads ----

/// Messages of one size that a rank sends or receives in one phase.
struct message_load {
    float part = 0;                ///< size of one message; in single precision, so equal sizes compare equal
    float overhead = 0;            ///< o: processor time of one segment at one end [s]
    float segment = wire_segment;  ///< bytes of its longest segment; 0: the message is not cut
    double count = 0;

    /// Returns the segments of one message: ceil(part N / segment).
    double segments(double bytes) const { return segment > 0 ? std::ceil(part * bytes / segment) : 1; }
    /// Returns the processor time of one end of all these messages: count o segments [s].
    double time(double bytes) const { return count * overhead * segments(bytes); }

    friend auto operator<=>(const message_load&, const message_load&) = default;
};

/// The work of a rank's processor in one phase.
struct processor_load {
    std::vector<message_load> sent, received;  ///< sorted
    float memory = 0;                          ///< to reduce arriving data, and to copy inside a node [s/B]

    /// Returns the time: max(sent, received) + memory N [s]. Sending and receiving overlap, so an exchange of one
    /// message each way costs o once.
    double time(double bytes) const;

    friend auto operator<=>(const processor_load&, const processor_load&) = default;
};

/// Hops of one kind around a ring.
struct ring_hop {
    double latency = 0;  ///< of one hop [s]
    double wire = 0;     ///< time on the wire [s/B]
    message_load message;
    double memory = 0;        ///< to copy and reduce the message [s/B]
    int count = 0;            ///< in the whole ring, without the one hop that no part takes
    std::vector<int> within;  ///< number of these hops in the longest domain of each height
};

/// Use of one direction of a link.
struct link_use {
    int link = 0;  ///< number in link_rows
    double vectors = 0;
    double time = 0;  ///< of these vectors at the link's rate for this stage's data [s/B]
};

/// The load of one phase, which is one direction (up or down) of one stage over the whole machine.
struct phase_load {
    double startups = 0;                      ///< latencies of steps that wait for one another [s]
    double wire = 0;                          ///< of the busiest link in each step, summed [s/B]
    double headers = 0;                       ///< time of headers on the link with the most in each step, summed [s]
    std::vector<ring_hop> lap;                ///< hops of a part around a ring over several levels; empty: no such ring
    double held_startups = 0, held_wire = 0;  ///< sums over the steps in which one rank takes part; largest rank
    double in_turn = 0;                 ///< time of a rank's messages over links of a torus, one after the other [s/B]
    double overlap = 0;                 ///< time saved of this by messages that share a lane's request slots [s]
    std::vector<link_use> links;        ///< ascending; links above samples have their full load
    std::vector<processor_load> loads;  ///< different loads of samples
    std::vector<int> load_of_sample;    ///< index into `loads`
    std::vector<double> ranks;          ///< number of ranks with each load
    std::vector<std::vector<double>> times;  ///< of each load, at each size of planner_policy [s]
    std::vector<int> slowest;                ///< loads that are the longest at one of these sizes
    std::vector<message_load> path;          ///< the largest message of each step; these wait for one another
    double path_memory = 0;                  ///< to copy and reduce the messages of `path` [s/B]
    bool in_memory = true;      ///< processors move all data themselves, so links and processors are busy at once
    bool side_by_side = false;  ///< several rings: while one is on the wire, processors work for others
    double network_part = 0;    ///< the largest message between nodes
    int sent_at_once = 0;       ///< maximum number of messages between nodes that a rank sends in one step
    double largest_part = 0;    ///< the largest message
};

/// The phases of a stage in a collective, in no order. Candidates with the same stage at the same place share them.
struct stage_price {
    std::vector<std::shared_ptr<const phase_load>> phases;

    /// Returns the time of the stage alone [s].
    double time(double bytes) const;
    /// Returns the vectors through the stage's busiest link, summed over the phases.
    double busiest_link() const;
};

/// Sets the loads of a phase from the samples' loads. `weights` are the numbers of ranks that the samples represent.
void set_loads(phase_load& p, std::vector<processor_load> of_samples, std::span<const double> weights);

// ---- times of a phase for a vector of `bytes` bytes [s] ----

/// Returns the processor time of the rank with the most work.
double slowest_rank_time(const phase_load& p, double bytes);

/// Returns the processor time on the critical path: of the rank with the most work, or of the largest message of each
/// step in sequence. A chain occupies no rank for long, but the times of its ranks add up along it.
double rank_time(const phase_load& p, double bytes);

/// Returns the time on wires: max(wire N, in_turn N - overlap). Long messages use all request slots of a lane and are
/// sent one after the other, even over different links of a torus.
double wire_time(const phase_load& p, double bytes);

/// Returns the time of steps that all ranks take together: start-ups, wire and processor. Wire and processor add up, or
/// overlap if processors move the data themselves. If a rank sends several messages at once, the header of one is on
/// the link while the processor works on the next: the longer of the two counts for all messages, the other for one.
double step_time(const phase_load& p, double bytes);

/// Returns the time of one part around a ring over several levels: sum over hops of latency, wire, o and memory. Some
/// hops in a row, those inside the longest domain of a height, may be replaced by a queue before a slower hop; the
/// longest sum counts. 0 without such a ring. ("Around a ring" in the cost model.)
double lap_time(const phase_load& p, double bytes);

/// Returns the time of the phase: max(step_time, lap_time). Either the busiest link passes all parts, or one part is in
/// flight the longest.
double phase_time(const phase_load& p, double bytes);

/// Returns the start-ups of the phase in sequence: of its steps, or of a lap around a ring if that is longer.
double startup_time(const phase_load& p);

/// Returns how long, at most, one rank takes part in the phase. A chunk occupies the rank's lane for this time.
double held_time(const phase_load& p, double bytes);

}  // namespace terrace::detail
