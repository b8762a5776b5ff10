#pragma once

#include <algorithm>
#include <cstdint>

#include "base/partition.hpp"

namespace terrace::detail {

/// The assignment of a call's chunks to lanes: chunk k runs in lane k mod lanes, after chunk k - lanes.
struct chunk_order {
    std::int64_t chunks = 1;  ///< >= 1
    int lanes = 1;

    int lane_of(std::int64_t chunk) const noexcept { return static_cast<int>(chunk % lanes); }
    std::int64_t first_of(int lane) const noexcept { return lane; }
    std::int64_t next(std::int64_t chunk) const noexcept { return chunk + lanes; }
    bool exists(std::int64_t chunk) const noexcept { return chunk < chunks; }
    /// Returns true for the last chunk, which may be shorter than the others and so has instructions of its own.
    bool is_tail(std::int64_t chunk) const noexcept { return chunk == chunks - 1; }
    /// Returns the number of lanes that have a chunk to run.
    int lanes_used() const noexcept { return static_cast<int>(std::min<std::int64_t>(lanes, chunks)); }
    /// Returns the number of chunks that a lane runs.
    std::int64_t chunks_of(int lane) const noexcept { return exists(lane) ? div_ceil(chunks - lane, lanes) : 0; }
};

}  // namespace terrace::detail
