#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "plan/recipe.hpp"
#include "planner/pattern.hpp"
#include "planner/planner.hpp"
#include "schedule/compose.hpp"

namespace terrace {

/// Messages are at most this long [bytes], longer ones go as several (docs/architecture.md, section 7); but not between
/// GPUs over NVLink or PCIe.
inline constexpr double wire_segment = 48 << 10;

/// Time to reduce one byte into an accumulator on one rank (gamma) [s/B]. A processor core streams about 22 GB/s
/// (docs/performance.md), and a reduction reads two operands and writes one; a GPU (a rank whose own link is NVLink or
/// PCIe) streams at least 600 GB/s.
double reduce_time(const hierarchy& machine) noexcept;

/// Messages of one size that a rank sends or receives in one phase.
struct message_load {
    float part = 0;        ///< of the vector; single precision, so that equal sizes compare equal
    float overhead = 0;    ///< o of one message [s]
    bool whole = false;    ///< not cut into segments
    double count = 0;

    friend auto operator<=>(const message_load&, const message_load&) = default;
};

/// What a rank's processor does in one phase.
struct cpu_load {
    std::vector<message_load> sent, received;  ///< sorted
    float reduction = 0;                       ///< time to add up what arrives, per byte of the vector [s/B]

    /// For a vector of `bytes` [s]. Sending and receiving go hand in hand: an exchange of one message each way costs o.
    double time(double bytes) const;

    friend auto operator<=>(const cpu_load&, const cpu_load&) = default;
};

/// One direction of one stage over the whole machine: what it takes, as a function of the bytes of the vector.
struct phase_cost {
    double latency = 0;                ///< start-ups that wait for one another [s]
    double data = 0;                   ///< on the wire, per byte of the vector [s/B]
    std::vector<double> links;         ///< vectors through each link of the machine, outgoing ones first
    std::vector<cpu_load> loads;       ///< the different ones
    std::vector<int> load_of_rank;     ///< index into `loads`
    double network_part = 0;           ///< the largest message between nodes, of the vector
    double largest_part = 0;           ///< the largest message
};

/// Up and down. Shared by all candidates that have the stage at the same place.
struct stage_price {
    phase_cost up, down;

    /// Of the stage alone [s].
    double time(double bytes) const;
    double latency() const { return up.latency + down.latency; }
};

/// A list of stages, priced for any size.
class price {
public:
    price(const hierarchy& machine, std::vector<std::shared_ptr<const stage_price>> stages);

    /// Time of an allreduce of `bytes` [s].
    double time(double bytes, int lanes, std::int64_t chunk) const;
    prediction explain(double bytes, int lanes, std::int64_t chunk) const;
    /// Processor time of the busiest rank and of the average one together [s]: tells equally fast ones apart. Ranks may
    /// share cores, so that what the others do counts too.
    double effort(double bytes, std::int64_t chunk) const;
    /// Bytes of a vector per byte of its largest message between nodes (of its largest message, within one node).
    double shrink() const noexcept { return shrink_; }

private:
    struct totals;
    totals per_chunk(double bytes) const;
    struct busy {
        double most = 0, average = 0;
    };
    busy cpu_time(double bytes) const;
    double chunks(double bytes, std::int64_t chunk) const;

    std::vector<std::shared_ptr<const stage_price>> stages_;
    std::vector<link_cost> links_;              // the busiest of each level; bytes and time per byte of the vector
    double link_time_ = 0;                      // of the busiest link, per byte of the vector [s/B]
    std::map<std::vector<int>, int> rank_kinds_;  // per phase the index into its loads -> ranks that are so
    double ranks_;
    double shrink_ = 1;
};

/// Prices stages on one machine. Section 6 of docs/architecture.md: every message is charged to each physical link that
/// it crosses, for any grouping, aligned with the levels or not.
class pricer {
public:
    explicit pricer(const hierarchy& machine);

    /// Stage `number` of a composition, run by `a`.
    std::shared_ptr<const stage_price> price_stage(const composition& c, std::size_t number, const algorithm& a);
    price price_stages(std::span<const stage> stages);
    /// What is laid out to price stages: a vector so large that rounding its shards does not matter.
    composition lay_out(std::span<const stage> stages) const;
    const hierarchy& machine() const noexcept { return machine_; }

private:
    phase_cost price_phase(const composed_stage& s, const algorithm& a, bool down);

    const hierarchy& machine_;
    pattern_book book_;
};

}  // namespace terrace
