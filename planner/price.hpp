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

/// A call that is cut into equal chunks. Each chunk passes all stages in order, and several chunks are in flight.
struct pipeline {
    double chunks = 1;      ///< c
    double chunk_time = 0;  ///< t: time of one chunk through all stages [s]
    double busiest = 0;     ///< b: time for which one chunk occupies the busiest link or processor [s]
    double idle = 0;        ///< i: part of t in which rings leave their busiest link to other chunks [s]
    double lane_time = 0;   ///< h: time for which one chunk occupies a rank's lane, at most [s]
    double limit = 0;       ///< lower bound of the machine for the whole call [s]

    /// Returns the time of the call in L lanes [s]. A chunk begins when the chunk before it in its lane has ended; the
    /// first L begin at once. It ends at least b after the chunk before it. No call is faster than the limit:
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

/// One direction of a stage, for a part of the vector.
struct stage_pass {
    int stage = 0;
    int route =
        0;  ///< passes of different routes (1, 2, ...) run side by side. 0: of all routes, before them on the way up
    double part = 1;  ///< of the vector that `load` counts; may exceed 1 if the stage comes earlier on a route
    std::shared_ptr<const phase_load> load;

    /// Returns the processor time of one of the loads [s].
    double time_of(int number, double bytes) const { return load->loads[at(number)].time(bytes * part); }
};

/// The price of a list of stages for one collective, for any size.
class price {
public:
    /// @param limit lower bound of the time per byte [s]
    price(const link_rows& rows, const samples& ranks, collective what, std::vector<stage_pass> passes, double limit);

    collective what() const noexcept { return what_; }
    /// Returns the pipeline of a call. `bytes` > 0; chunk 0: in one piece.
    pipeline in_chunks(double bytes, std::int64_t chunk) const;
    /// Returns the time of a call [s].
    double time(double bytes, int lanes, std::int64_t chunk) const { return in_chunks(bytes, chunk).time(lanes); }
    /// Returns a lower bound of time() for all lanes and chunks [s]: the largest of the start-ups of the longest route,
    /// the busiest link, the busiest processor, and the limit.
    double at_least(double bytes) const {
        return std::max({startups_, link_time_ * bytes, busiest_processor_time(bytes), limit_ * bytes});
    }
    /// Returns the terms of a call's time.
    prediction explain(double bytes, int lanes, std::int64_t chunk) const;
    /// Returns the processor times of the busiest and the average rank, added up [s]; decides between equally fast
    /// candidates. Ranks may share cores, so the work of other ranks counts too.
    double effort(double bytes, std::int64_t chunk) const;
    /// Returns the number of segments of all messages of all ranks; a rank without messages in a phase counts as one.
    double messages(double bytes, std::int64_t chunk) const;
    /// Returns the phases of all stages, in no order.
    const std::vector<stage_pass>& passes() const noexcept { return passes_; }
    /// Returns the part of the vector in the largest message between nodes, and in the largest of all messages and
    /// stages in shared memory; 0: there is none.
    double network_part() const noexcept { return network_part_; }
    double largest_part() const noexcept { return largest_part_; }
    bool crosses_network() const noexcept { return network_part_ > 0; }
    /// Returns the maximum number of messages between nodes that a rank sends at once.
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
    double limit_;  // per byte [s]
    std::vector<stage_pass> passes_;
    std::vector<link_cost> links_;  // busiest link of each row; bytes and time per byte of the vector
    double link_time_ = 0;          // of the busiest link [s/B]
    double startups_ = 0;           // start-ups in sequence on the longest route [s]
    // Ranks that are the busiest at one of the sizes, each as the indices of its loads in the passes.
    std::vector<std::vector<int>> busiest_;
    double ranks_ = 0;
    double network_part_ = 0, largest_part_ = 0;
    int sent_at_once_ = 0;
};

}  // namespace terrace::detail
