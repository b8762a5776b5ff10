#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

}  // namespace terrace::detail
