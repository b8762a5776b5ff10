#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace terrace::detail {

/// The slots of an endpoint for callers' messages, in pools, so that none of the four ways waits for another.
template <class Copied>
class message_slots {
public:
    enum pool : std::size_t { eager_out, eager_in, pieces_out, pieces_in, pools };
    static constexpr std::array<int, pools> sizes{32, 32, 64, 64};
    static constexpr int all = std::accumulate(sizes.begin(), sizes.end(), 0);

    /// What a slot is taken for.
    struct use {
        std::uint64_t operation = 0;
        std::shared_ptr<Copied> copied;  ///< or this
        pool from = eager_out;
    };

    message_slots() : uses_(static_cast<std::size_t>(all)) {
        int next = 0;
        for (std::size_t p = 0; p < pools; ++p)
            for (int i = 0; i < sizes[p]; ++i) free_[p].push_back(next++);
    }
    bool has(pool from) const noexcept { return !free_[from].empty(); }
    int in_use(pool from) const noexcept { return sizes[from] - static_cast<int>(free_[from].size()); }
    /// Returns the memory for a copy that a slot of eager_out sends.
    std::vector<std::byte>& copy_of(int slot) noexcept { return copies_[static_cast<std::size_t>(slot)]; }
    /// Returns a slot, 0 ... all - 1; -1: none is left.
    int acquire(pool from, std::uint64_t operation, std::shared_ptr<Copied> copied = {}) noexcept {
        if (free_[from].empty()) return -1;
        const int slot = free_[from].back();
        free_[from].pop_back();
        uses_[static_cast<std::size_t>(slot)] = {operation, std::move(copied), from};
        return slot;
    }
    /// Gives a slot back. Returns what it was taken for.
    use release(int slot) noexcept {
        use was = std::exchange(uses_[static_cast<std::size_t>(slot)], {});
        free_[was.from].push_back(slot);
        return was;
    }

private:
    std::array<std::vector<int>, pools> free_;
    std::vector<use> uses_;
    std::array<std::vector<std::byte>, sizes[eager_out]> copies_;  // by slot of eager_out, which are the first
};

}  // namespace terrace::detail
