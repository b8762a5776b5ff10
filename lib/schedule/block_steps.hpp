#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "schedule/collective_call.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// Where the chunks of blocks of unequal counts lie in the caller's buffers. Of the buffer of all blocks the schedule
/// of the last chunk speaks as it is, and that of the others of the first; in a later one each block is further on by
/// what the chunks before have of it. The buffer of the rank's own block begins with what a chunk has of it, in either.
///
///     blocks   | 0 0 0 0 0 0 0 0 0 0 | 1 1 1 1 1 |
///     chunk 0    ^^^^^                 ^^^
///     chunk 1          ^^^^^               ^^^
class block_steps {
public:
    /// Makes steps of nothing: for vectors, and for blocks of one count, whose chunks all begin further on alike.
    block_steps() = default;
    /// @param first chunk of the call   @param rank whose buffers are meant
    block_steps(const collective_call& first, int rank)
        : own_(first.what == collective::allgather || first.what == collective::gather ? buffer::send : buffer::recv),
          own_count_(first.blocks[static_cast<std::size_t>(rank)].count()),
          all_(first.blocks) {
        // An empty block has its place before the one that begins there.
        std::ranges::sort(all_, {}, [](const range& r) { return std::pair(r.begin, r.end); });
    }

    bool empty() const noexcept { return all_.empty(); }
    /// Returns how many elements further on an operand lies in a chunk than in its schedule.
    std::int64_t of(const operand& o, std::int64_t chunk, bool is_last) const noexcept {
        if (empty() || (o.where != buffer::send && o.where != buffer::recv)) return 0;
        if (o.where == own_) return chunk * own_count_;
        if (is_last) return 0;
        return chunk * std::prev(std::ranges::upper_bound(all_, o.part.begin, {}, &range::begin))->count();
    }

private:
    buffer own_ = buffer::recv;   // has the rank's own block alone
    std::int64_t own_count_ = 0;  // of it in a chunk but the last
    std::vector<range> all_;      // what the first chunk has of each block, in order
};

}  // namespace terrace::detail
