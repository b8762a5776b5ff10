#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

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

}  // namespace terrace::detail
