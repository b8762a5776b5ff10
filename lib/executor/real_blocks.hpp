#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"

namespace terrace::detail {

/// Where the blocks of a buffer really are, for a program that takes all of them for equally long: they stand side by
/// side, each as long as it is.
///
///     schedule   | block 0    | block 1    | block 2    |
///     buffer     | 0 0 | 1 1 1 1 1 1 | 2 |
class real_blocks {
public:
    /// @param block elements of each block in the schedule, more than 0
    void assign(std::int64_t block, std::span<const std::int64_t> lengths) {
        block_ = block;
        ends_.clear();
        std::int64_t end = 0;
        for (const std::int64_t length : lengths) ends_.push_back(end += length);
    }

    /// Returns the elements of the buffer that a part of a block in a chunk's schedule stands for.
    /// @param begin the chunk's first element of each block   @param to_the_end the chunk is the last one
    range part_of(range part, std::int64_t begin, bool to_the_end) const noexcept {
        const auto number = static_cast<std::size_t>(part.begin / block_);
        const range all{number == 0 ? 0 : ends_[number - 1], ends_[number]};
        const std::int64_t first = std::min(all.begin + begin + part.begin % block_, all.end);
        return {first, to_the_end ? all.end : std::min(first + part.count(), all.end)};
    }

private:
    std::int64_t block_ = 1;
    std::vector<std::int64_t> ends_;
};

}  // namespace terrace::detail
