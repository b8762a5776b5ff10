#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/wire.hpp"
#include "plan/recipe.hpp"
#include "planner/layout.hpp"
#include "planner/pattern.hpp"
#include "planner/planner.hpp"

namespace terrace {

/// Sizes that plans are made for [bytes]: powers of two.
inline constexpr std::int64_t smallest_size = 8;
inline constexpr std::int64_t largest_size = std::int64_t{1} << 30;

/// Time to reduce one byte into an accumulator on one rank (gamma) [s/B]. A processor core streams about 24 GB/s
/// (docs/performance.md), and a reduction reads two operands and writes one; a GPU (a rank whose own link is NVLink or
/// PCIe) streams at least 600 GB/s.
double reduce_time(const hierarchy& machine) noexcept;
/// Time to read or write one byte [s/B]: a reduction reads two and writes one.
double access_time(const hierarchy& machine) noexcept;

/// To see a peer's flag takes so much of a message's start-up (docs/performance.md, one node).
inline constexpr double flag = 1.0 / 3;

/// How long a rank that waits for another is without its core, where ranks share cores: until each of the others on it
/// has had its turn, which takes about what one end of a message does [s].
double turn_time(const hierarchy& machine) noexcept;

/// Messages go whole there.
bool between_gpus(fabric f) noexcept;
/// Whether ranks are GPUs.
bool on_gpus(const hierarchy& machine) noexcept;
/// Ranks that meet at the level are processor cores that copy through memory they share.
bool through_memory(const hierarchy& machine, int l) noexcept;

/// Messages of one size that a rank sends or receives in one phase.
struct message_load {
    float part = 0;      ///< of the vector; single precision, so that equal sizes compare equal
    float overhead = 0;  ///< o of one message [s]
    bool whole = false;  ///< not cut into segments
    double count = 0;

    friend auto operator<=>(const message_load&, const message_load&) = default;
};

/// What a rank's processor does in one phase.
struct cpu_load {
    std::vector<message_load> sent, received;  ///< sorted
    float memory = 0;  ///< time to add up what arrives and to copy inside a node, per byte of the vector [s/B]

    /// For a vector of `bytes` [s]. Sending and receiving go hand in hand: an exchange of one message each way costs o.
    double time(double bytes) const;
    /// The same of cores that others want too [s]: there each end of a message costs o, as nothing goes hand in hand.
    double work(double bytes) const;

    friend auto operator<=>(const cpu_load&, const cpu_load&) = default;
};

/// Hops of one kind around a ring.
struct ring_hop {
    double latency = 0;  ///< of one of them [s]
    double data = 0;     ///< on the wire, per byte of the vector [s/B]
    message_load message;
    double memory = 0;        ///< time to copy and add it up, per byte of the vector [s/B]
    int count = 0;            ///< all but one of the whole ring
    std::vector<int> within;  ///< those in the longest domain, by its height
};

/// One direction of one stage over the whole machine: what it takes, as a function of the bytes of the vector.
struct phase_cost {
    double latency = 0;         ///< start-ups that wait for one another [s]
    double data = 0;            ///< on the wire, per byte of the vector [s/B]
    std::vector<ring_hop> lap;  ///< of a part around a ring: `latency` and `data` are then those of the busiest link
    double held_latency = 0, held_data = 0;  ///< those of `latency` and `data` in which one rank takes part, at most
    double in_turn = 0;               ///< what a rank sends over rings, one message after the other, per byte [s/B]
    double overlap = 0;               ///< so much shorter is that, as request slots let messages overlap [s]
    std::vector<double> links;        ///< vectors through the links above each sample: by sample, level, direction
    std::vector<cpu_load> loads;      ///< the different ones
    std::vector<int> load_of_sample;  ///< index into `loads`
    std::vector<double> ranks;        ///< how many have each of them
    std::vector<std::vector<double>> times;  ///< of each load, for vectors of powers of two from smallest_size [s]
    std::vector<int> slowest;                ///< those loads that take the longest at one of these sizes
    std::vector<message_load> path;          ///< the largest message of each exchange: they wait for one another
    double path_memory = 0;                  ///< time to copy and add them up, per byte of the vector [s/B]
    int cores = 0;                           ///< that all ranks share; 0: each has its own
    bool in_memory = false;        ///< processors move the data themselves: links and processors are busy at once
    std::vector<double> slowness;  ///< by level: times as long as its rate says that a link takes
    double network_part = 0;       ///< the largest message between nodes, of the vector
    double largest_part = 0;       ///< the largest message
};

/// Up and down. Shared by all candidates, of all collectives, that have the stage at the same place.
struct stage_price {
    phase_cost up, down;
    std::shared_ptr<const stage_price> of_blocks;  ///< up and down of collectives that have blocks, where they differ

    /// Those that a collective runs.
    std::vector<const phase_cost*> phases(collective what) const;
    /// Of the stage alone [s].
    double time(double bytes, collective what) const;
    /// Vectors through its busiest link, on each way.
    double busiest_link(collective what) const;
};

/// A stage as a part of the vector goes through it.
struct leg {
    int stage = 0;
    int route = 0;  ///< those of different routes are under way side by side; 0: of all, before them on the way up
    std::shared_ptr<const stage_price> cost;
};

/// A message cut into chunks.
struct pipeline {
    double chunks = 1;
    double sum = 0;      ///< of one chunk: all stages one after the other [s]
    double busiest = 0;  ///< of one chunk: the resource that it keeps busy the longest [s]
    double idle = 0;     ///< of `sum`: what goes around rings leaves that to other chunks [s]
    double held = 0;     ///< of one chunk: how long it keeps a rank's lane, at most [s]

    /// A chunk ends every so often as the busiest resource is occupied by one; and it begins once that has ended which
    /// had its lane, so that as many as there are lanes wait for none (section 6).
    double time(int lanes) const noexcept {
        const double waits = std::floor((chunks - 1) / lanes), others = chunks - 1 - waits * lanes;
        return std::max(sum + waits * held + std::max(0.0, others * busiest - idle),
                        sum - idle + (chunks - 1) * busiest);
    }
};

/// A list of stages, priced for any size of one collective.
class price {
public:
    price(const hierarchy& machine, const sampler& samples, collective what, std::vector<leg> legs);

    collective what() const noexcept { return what_; }
    pipeline in_chunks(double bytes, std::int64_t chunk) const;
    /// Time of a call with `bytes` > 0 [s].
    double time(double bytes, int lanes, std::int64_t chunk) const { return in_chunks(bytes, chunk).time(lanes); }
    /// No lanes and no chunks make it shorter [s].
    double at_least(double bytes) const;
    prediction explain(double bytes, int lanes, std::int64_t chunk) const;
    /// Processor time of the busiest rank and of the average one together [s]: tells equally fast ones apart. Ranks may
    /// share cores, so that what the others do counts too.
    double effort(double bytes, std::int64_t chunk) const;
    /// Messages on the way, in segments, of all ranks together, and one for each rank where a stage has none.
    double messages(double bytes, std::int64_t chunk) const;
    /// Bytes of a vector per byte of its largest message between nodes (of its largest message, within one node).
    double shrink() const noexcept { return shrink_; }
    bool crosses_network() const noexcept { return crosses_network_; }

private:
    void find_busiest(const sampler& samples);
    double cpu_time(double bytes) const;
    int longest_route(double bytes) const;

    collective what_;
    std::vector<leg> legs_;
    std::vector<const phase_cost*> phases_;  // of the legs, those that are run
    std::vector<link_cost> links_;           // the busiest of each level; bytes and time per byte of the vector
    double link_time_ = 0;                   // of the busiest link, per byte of the vector [s/B]
    double latency_ = 0;                     // start-ups that wait for one another, on the longest route [s]
    // Ranks that are the busiest at one of the sizes, as the indices of their loads in each phase.
    std::vector<std::vector<int>> busiest_;
    double ranks_;
    double shrink_ = 1;
    bool crosses_network_ = false;
};

/// "0-1:8:scatter:ring:nccl:0:;": the same text for equal stages and for no others.
std::string key_of(std::span<const stage> stages);

/// Whether plans may run a stage by it. A native stage runs where ranks share memory; and between GPUs, over NCCL,
/// where domains are even, so that NCCL knows the groups, and the file says what NCCL takes there (`nccl:`).
bool available(const hierarchy& machine, const stage& s, const algorithm& a);

/// Prices stages on one machine. Section 6 of docs/architecture.md: every message is charged to each physical link that
/// it crosses, for any grouping, aligned with the levels or not; ranks that do the same are looked at once.
class pricer {
public:
    explicit pricer(const hierarchy& machine) : pricer(machine, sampler(machine)) {}
    pricer(const hierarchy& machine, sampler samples);

    price price_stages(std::span<const stage> stages, collective what);
    /// For each stage, whatever its algorithm is, all that could run it: between GPUs also over MPI, where the file
    /// says what that takes (`mpi:`). Each is priced once.
    struct option {
        const algorithm* by;
        carrier over;
        std::shared_ptr<const stage_price> cost;
    };
    std::vector<std::span<const option>> price_options(std::span<const stage> stages);
    price price_together(collective what, std::span<const stage> stages,
                         std::vector<std::shared_ptr<const stage_price>> costs) const;
    const hierarchy& machine() const noexcept { return machine_; }
    /// How much of a vector is to begin with each of the stages, which cost so much, for the busiest link of a torus
    /// (in one piece: and the longest route) to be busy no longer than it must: small integers, as stage::first. Empty
    /// where there is nothing to gain, or no torus.
    std::vector<int> turns(collective what, std::span<const stage> stages,
                           std::span<const std::shared_ptr<const stage_price>> costs, bool in_one_piece) const;

private:
    std::shared_ptr<const stage_price> price_stage(std::span<const stage> up_to_it, const algorithm& a, carrier over);
    std::vector<option> options_of(std::span<const stage> up_to_it);

    const hierarchy& machine_;
    sampler samples_;
    std::shared_ptr<const stage_price> block_copies_;  // of collectives that have blocks: there and back, up and down
    std::shared_ptr<const stage_price> root_copy_;     // of a broadcast's root, to where its peers reach it
    pattern_book book_;
    std::map<std::string, std::vector<option>> options_;  // by the stages up to and with the priced one
};

}  // namespace terrace
