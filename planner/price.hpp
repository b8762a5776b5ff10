#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/index.hpp"
#include "planner/planner.hpp"
#include "planner/samples.hpp"
#include "planner/stage_time.hpp"

namespace terrace::detail {

/// A call that is cut into equal chunks, which go through all stages one after the other, several of them at a time.
struct pipeline {
    double chunks = 1;      ///< c
    double chunk_time = 0;  ///< t: of one chunk through all stages [s]
    double busiest = 0;     ///< b: for how long one chunk occupies the busiest link or processor [s]
    double idle = 0;        ///< i: of t, time in which rings leave their busiest link to other chunks [s]
    double lane_time = 0;   ///< h: for how long one chunk keeps a rank's lane, at most [s]
    double limit = 0;       ///< of the machine, for the whole call [s]

    /// Time of the call in L lanes [s]. A chunk begins once the one before it in its lane has ended, so that the first
    /// L wait for none; and it ends b after the one before it at the earliest. No call is faster than the limit:
    ///
    ///     T = max( t + floor((c-1)/L) h + max(0, ((c-1) mod L) b - i),  t - i + (c-1) b,  limit )
    double time(int lanes) const noexcept {
        const double waits = std::floor((chunks - 1) / lanes), others = chunks - 1 - waits * lanes;
        return std::max({chunk_time + waits * lane_time + std::max(0.0, others * busiest - idle),
                         chunk_time - idle + (chunks - 1) * busiest, limit});
    }
};

/// Returns the number of chunks of a vector; chunk 0: one chunk.
inline double chunks_of(double bytes, std::int64_t chunk) noexcept {
    return chunk == 0 ? 1 : std::max(1.0, std::ceil(bytes / static_cast<double>(chunk)));
}

/// One direction of a stage as a part of the vector goes through it.
struct stage_pass {
    int stage = 0;
    int route =
        0;  ///< from 1 on: passes of different routes run side by side. 0: of all routes, before them on the way up
    double part = 1;  ///< of what `load` is of; may be more than 1 where the stage comes earlier on a route
    std::shared_ptr<const phase_load> load;

    /// Returns the processor time of one of the loads [s].
    double time_of(int number, double bytes) const { return load->loads[at(number)].time(bytes * part); }
};

/// The price of a list of stages for one collective, for any size.
class price {
public:
    /// @param limit of a byte [s]
    price(const link_rows& rows, const samples& ranks, collective what, std::vector<stage_pass> passes, double limit);

    collective what() const noexcept { return what_; }
    /// The pipeline of a call. `bytes` > 0; chunk 0: in one piece.
    pipeline in_chunks(double bytes, std::int64_t chunk) const;
    /// Time of a call [s].
    double time(double bytes, int lanes, std::int64_t chunk) const { return in_chunks(bytes, chunk).time(lanes); }
    /// A lower bound of that for all lanes and chunks [s]: start-ups of the longest route, the busiest link, the
    /// busiest processor, the limit.
    double at_least(double bytes) const {
        return std::max({startups_, link_time_ * bytes, busiest_processor_time(bytes), limit_ * bytes});
    }
    /// The terms that a time consists of.
    prediction explain(double bytes, int lanes, std::int64_t chunk) const;
    /// Processor time of the busiest rank and of the average one together [s]: tells equally fast candidates apart.
    /// Ranks may share cores, so that work of the others counts too.
    double effort(double bytes, std::int64_t chunk) const;
    /// Messages of all ranks together, in segments; a rank without messages in a phase counts as one.
    double messages(double bytes, std::int64_t chunk) const;
    /// Of all stages, in no order: what was counted.
    const std::vector<stage_pass>& passes() const noexcept { return passes_; }
    /// The part of the vector in its largest message between nodes, and the largest in any message or stage in memory;
    /// 0: there is none.
    double network_part() const noexcept { return network_part_; }
    double largest_part() const noexcept { return largest_part_; }
    bool crosses_network() const noexcept { return network_part_ > 0; }
    /// Messages between nodes that a rank sends at once, at most.
    int sent_at_once() const noexcept { return sent_at_once_; }

private:
    void find_startups();
    void find_busiest_links(const link_rows& rows);
    void find_busiest_ranks(std::size_t samples);
    double busiest_processor_time(double bytes) const;
    int longest_route(double bytes) const;
    double chunk_time(double bytes, int longest) const;
    double idle_time(double bytes) const;

    collective what_;
    double limit_;  // of a byte [s]
    std::vector<stage_pass> passes_;
    std::vector<link_cost> links_;  // the busiest of each row; bytes and time per byte of the vector
    double link_time_ = 0;          // of the busiest link [s/B]
    double startups_ = 0;           // that wait for one another, on the longest route [s]
    // Ranks that are the busiest at one of the sizes, as the indices of their loads in each pass.
    std::vector<std::vector<int>> busiest_;
    double ranks_ = 0;
    double network_part_ = 0, largest_part_ = 0;
    int sent_at_once_ = 0;
};

}  // namespace terrace::detail
