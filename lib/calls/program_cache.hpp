#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/keep_for_ever.hpp"
#include "control/call_order/signature.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The programs of one communicator, most recently used first. A program stays at its address until it is dropped. The
/// number of programs and their bytes() are bounded, but for those in use.
template <class Program>
class program_cache {
public:
    /// The number of programs that are kept at first.
    static constexpr std::size_t usual_capacity = 32;

    struct entry {
        call_shape shape;
        std::uint64_t signature = 0;  ///< signature_of(shape), of calls of the host
        bool peers_reach_it = false;  ///< the program is for buffers that peers on the node can reach
        Program run;                  ///< the program
        std::uint64_t last_call = 0;  ///< number of the last call that ran it; 0: none yet
        bool in_graph = false;        ///< a graph runs it whenever it likes, so that it is never dropped
        /// What the rank gives to a barrier; the buffers of joined calls.
        std::vector<std::byte> memory = {};
        std::shared_ptr<const plan_data> plan = {};  ///< by which it was made; null: the first one
    };

    /// @param most_bytes of all programs
    explicit program_cache(std::size_t most_bytes) noexcept : most_bytes_(most_bytes) {}

    /// Returns a program for calls of this shape that `fits` is true of, as the most recently used one; null: there is
    /// none.
    template <class Predicate>
    entry* use(const call_shape& shape, Predicate fits) noexcept {
        const auto found = std::ranges::find_if(entries_, [&](const entry& e) { return e.shape == shape && fits(e); });
        if (found == entries_.end()) return nullptr;
        entries_.splice(entries_.begin(), entries_, found);
        return &entries_.front();
    }
    entry* use(const call_shape& shape) noexcept {
        return use(shape, [](const entry&) { return true; });
    }

    /// Keeps at least `programs` from now on, as far as there is memory for them. There are more than are kept only
    /// while that many are in use.
    void keep(std::size_t programs) noexcept { capacity_ = std::max(capacity_, programs); }

    /// Adds a program as the most recently used one. Drops those used longest ago whose last call is done, as long as
    /// there are too many, or they take too much memory.
    template <class Predicate>
    entry& add(entry made, Predicate done) {
        entries_.push_front(std::move(made));
        std::size_t kept = bytes();
        const auto exceeds = [&] { return entries_.size() > capacity_ || kept > most_bytes_; };
        for (auto oldest = std::prev(entries_.end()); exceeds() && oldest != entries_.begin();) {
            const auto candidate = oldest--;
            if (candidate->in_graph || !done(candidate->last_call)) continue;
            kept -= candidate->run.bytes();
            entries_.erase(candidate);
        }
        return entries_.front();
    }

    /// Keeps all programs for the rest of the process, which have then left the cache.
    void keep_for_ever() { detail::keep_for_ever(std::exchange(entries_, {})); }

    std::size_t size() const noexcept { return entries_.size(); }
    /// Returns the bytes of all programs that may be dropped.
    std::size_t bytes() const noexcept {
        std::size_t all = 0;
        for (const entry& e : entries_)
            if (!e.in_graph) all += e.run.bytes();
        return all;
    }

private:
    std::list<entry> entries_;
    std::size_t capacity_ = usual_capacity;
    std::size_t most_bytes_;
};

}  // namespace terrace::detail
