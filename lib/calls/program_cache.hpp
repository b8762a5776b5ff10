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
/// number of programs and their bytes() are limited, except for programs in use.
template <class Program>
class program_cache {
public:
    /// Initial limit of the number of programs.
    static constexpr std::size_t usual_capacity = 32;

    struct entry {
        call_shape shape;
        std::uint64_t signature = 0;  ///< signature_of(shape), for calls of host buffers
        bool peers_reach_it = false;  ///< the program is for buffers that peers on the node can access
        Program run;
        std::uint64_t last_call = 0;  ///< number of the last call that ran it; 0: none yet
        bool in_graph = false;        ///< a graph may run it at any time, so it is never dropped
        /// Element of a barrier, or buffers of joined calls.
        std::vector<std::byte> memory = {};
        std::shared_ptr<const plan_data> plan = {};  ///< plan by which it was made; null: the first plan
    };

    /// @param most_bytes limit of the bytes of all programs
    explicit program_cache(std::size_t most_bytes) noexcept : most_bytes_(most_bytes) {}

    /// Returns a program for calls of this shape for which `fits` is true, and makes it the most recently used one.
    /// Returns null if there is none.
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

    /// Raises the limit to at least `programs` from now on, as far as the limit of bytes allows. The limit is exceeded
    /// only while all these programs are in use.
    void keep(std::size_t programs) noexcept { capacity_ = std::max(capacity_, programs); }

    /// Adds a program as the most recently used one. While a limit is exceeded, drops the programs used longest ago,
    /// but only those whose last call is done.
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

    /// Removes all programs from the cache, and keeps them until the process ends.
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
