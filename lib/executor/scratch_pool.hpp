#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "base/heap.hpp"

namespace terrace::detail {

/// Memory that programs borrow for a call, so that those which do not run at once share it. There are as many blocks as
/// have been borrowed at once.
class scratch_pool {
public:
    struct block {
        heap_memory memory;
        std::size_t bytes = 0;
    };

    /// Keeps at most so many bytes for later, from now on.
    void keep(std::size_t bytes) noexcept {
        most_kept_ = bytes;
        drop_excess();
    }
    /// Returns a block of at least `bytes`, not cleared; one without memory where the system gives none.
    block acquire(std::size_t bytes);
    void release(block b) noexcept;
    /// Returns the bytes of all blocks that nobody has borrowed.
    std::size_t kept() const noexcept { return kept_; }

private:
    void drop(std::vector<block>::iterator b) noexcept {
        kept_ -= b->bytes;
        free_.erase(b);
    }
    void drop_excess() noexcept;

    std::vector<block> free_;  // in the order in which they came back, with room for those that are out
    std::size_t out_ = 0;      // blocks
    std::size_t kept_ = 0, most_kept_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace terrace::detail
