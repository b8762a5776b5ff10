#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "schedule/collective_call.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// Offsets of chunks in the caller's buffers, for blocks of unequal counts. In the buffer of all blocks, the last
/// chunk's schedule has offset 0. The other chunks run the first chunk's schedule, offset in each block by the elements
/// of the chunks before. In the buffer of a rank's own block, both schedules begin at element 0.
///
///     blocks   | 0 0 0 0 0 0 0 0 0 0 | 1 1 1 1 1 |
///     chunk 0    ^^^^^                 ^^^
///     chunk 1          ^^^^^               ^^^
class block_steps {
public:
    /// Adds no offsets: for vectors, and for blocks of one count, in which a chunk has one offset for all operands.
    block_steps() = default;
    /// @param first first chunk of the call   @param rank owner of the buffers
    block_steps(const collective_call& first, int rank)
        : own_(first.what == collective::allgather || first.what == collective::gather ? buffer::send : buffer::recv),
          own_count_(first.blocks[static_cast<std::size_t>(rank)].count()),
          all_(first.blocks) {
        // An empty block precedes the other block that begins at the same element.
        std::ranges::sort(all_, {}, [](const range& r) { return std::pair(r.begin, r.end); });
    }

    bool empty() const noexcept { return all_.empty(); }
    /// Returns the offset of an operand in a chunk from its place in the schedule [elements].
    std::int64_t of(const operand& o, std::int64_t chunk, bool is_last) const noexcept {
        if (empty() || (o.where != buffer::send && o.where != buffer::recv)) return 0;
        if (o.where == own_) return chunk * own_count_;
        if (is_last) return 0;
        return chunk * std::prev(std::ranges::upper_bound(all_, o.part.begin, {}, &range::begin))->count();
    }

private:
    buffer own_ = buffer::recv;   // buffer of the rank's own block alone
    std::int64_t own_count_ = 0;  // elements of that block in each chunk but the last
    std::vector<range> all_;      // part of each block in the first chunk, in order
};

}  // namespace terrace::detail
