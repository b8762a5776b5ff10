#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

/// Some of the ranks of a communicator, in blocks that fit into a control message each.
class rank_set {
public:
    using block = std::array<std::uint64_t, 4>;  ///< of 256 ranks, a bit each

    explicit rank_set(int ranks = 0) : blocks_(at(ranks + 255) / 256) {}

    static constexpr std::size_t block_of(int rank) noexcept { return at(rank) / 256; }
    std::size_t size() const noexcept { return blocks_.size(); }
    const block& operator[](std::size_t i) const noexcept { return blocks_[i]; }

    bool contains(int rank) const noexcept { return (blocks_[block_of(rank)][word_of(rank)] & bit_of(rank)) != 0; }
    void insert(int rank) noexcept { blocks_[block_of(rank)][word_of(rank)] |= bit_of(rank); }
    void insert(std::size_t i, const block& ranks) noexcept {
        for (std::size_t w = 0; w < ranks.size(); ++w) blocks_[i][w] |= ranks[w];
    }

private:
    static constexpr std::size_t word_of(int rank) noexcept { return at(rank) / 64 % 4; }
    static constexpr std::uint64_t bit_of(int rank) noexcept { return std::uint64_t{1} << at(rank) % 64; }

    std::vector<block> blocks_;
};

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
