#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "base/heap.hpp"

namespace terrace::detail {

/// Memory that programs borrow for a call, so programs that do not run at once share memory. The pool has at most as
/// many blocks as were borrowed at once.
class scratch_pool {
public:
    struct block {
        heap_memory memory;
        std::size_t bytes = 0;
    };

    /// Limits the memory that is kept for later calls, from now on.
    void keep(std::size_t bytes) noexcept {
        most_kept_ = bytes;
        drop_excess();
    }
    /// Returns a block of at least `bytes`, not cleared; a block without memory if the system has none.
    block acquire(std::size_t bytes);
    void release(block b) noexcept;
    /// Returns the bytes of all blocks that are not borrowed.
    std::size_t kept() const noexcept { return kept_; }

private:
    void drop(std::vector<block>::iterator b) noexcept {
        kept_ -= b->bytes;
        free_.erase(b);
    }
    void drop_excess() noexcept;

    std::vector<block> free_;  // in the order of release, with room for all borrowed blocks
    std::size_t out_ = 0;      // borrowed blocks
    std::size_t kept_ = 0, most_kept_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace terrace::detail
