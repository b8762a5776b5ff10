#pragma once

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

/// Some ranks in a ring, in ascending order, as one of them sees it.
class rank_ring {
public:
    rank_ring() = default;
    /// @param ranks ascending   @param own one of them
    rank_ring(std::vector<int> ranks, int own)
        : ranks_(std::move(ranks)),
          place_(static_cast<int>(std::lower_bound(ranks_.begin(), ranks_.end(), own) - ranks_.begin())) {}

    int size() const noexcept { return static_cast<int>(ranks_.size()); }
    /// Returns the logarithm of its size, rounded up.
    int log() const noexcept { return static_cast<int>(std::bit_width(ranks_.size() - 1)); }
    /// Returns the rank so far ahead, at most once around; behind if it is negative.
    int at_distance(int d) const noexcept { return ranks_[at((place_ + size() + d) % size())]; }

private:
    std::vector<int> ranks_;
    int place_ = 0;
};

}  // namespace terrace::detail
