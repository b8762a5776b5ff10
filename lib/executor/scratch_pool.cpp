#include "executor/scratch_pool.hpp"

#include <algorithm>
#include <utility>

namespace terrace::detail {

// Takes the smallest block that is long enough. If there is none, a new block replaces the longest one, so calls that
// grow do not leave one block each.
scratch_pool::block scratch_pool::acquire(std::size_t bytes) {
    auto best = free_.end();
    for (auto b = free_.begin(); b != free_.end(); ++b)
        if (b->bytes >= bytes && (best == free_.end() || b->bytes < best->bytes)) best = b;
    block taken;
    if (best != free_.end()) {
        taken = std::move(*best);
        drop(best);
    } else {
        if (!free_.empty()) drop(std::ranges::max_element(free_, {}, &block::bytes));
        free_.reserve(free_.size() + out_ + 1);
        taken = {find_memory(bytes), bytes};
        if (taken.memory == nullptr) return {};
    }
    ++out_;
    return taken;
}

void scratch_pool::release(block b) noexcept {
    --out_;
    kept_ += b.bytes;
    free_.push_back(std::move(b));
    drop_excess();
}

// Frees blocks longer than the limit first, then the blocks that were released longest ago.
void scratch_pool::drop_excess() noexcept {
    while (kept_ > most_kept_) {
        const auto found = std::ranges::find_if(free_, [&](const block& b) { return b.bytes > most_kept_; });
        drop(found != free_.end() ? found : free_.begin());
    }
}

}  // namespace terrace::detail
