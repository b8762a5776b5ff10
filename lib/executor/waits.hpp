#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "statistics/call_counts.hpp"

namespace terrace::detail {

/// The ranks and operations that a rank is waiting for, in the caller's rank numbering.
struct waiting {
    std::vector<std::string> lines;  ///< one each: the call, where in it, the operation and the rank
    std::set<int> ranks;

    void add(int rank, std::string line) {
        ranks.insert(rank);
        lines.push_back(std::move(line));
    }
};

/// Returns the time since this was first asked of a wait, which is noted in `since`. A rank that waits asks all the
/// time.
inline std::chrono::duration<double> time_since_asked(std::chrono::steady_clock::time_point& since) noexcept {
    const auto now = std::chrono::steady_clock::now();
    if (since == std::chrono::steady_clock::time_point{}) since = now;
    return now - since;
}

/// Counts how long a rank waits for others in its calls.
class wait_counter {
public:
    /// The calls that are complete, and waits.
    call_counts& counts() noexcept { return counts_; }

    /// Call it again and again while a rank polls in vain. @param place returns where it waits, if for another rank
    template <class Place>
    void follow(Place place) {
        const auto now = clock::now();
        if (since_ != clock::time_point{}) {
            if (now - since_ < least) return;
            awaited_ = place();
            count(now);
        }
        since_ = now;
    }
    /// Says that something has happened.
    void end() noexcept {
        if (awaited_) count(clock::now());
        awaited_.reset();
        since_ = {};
    }

private:
    using clock = std::chrono::steady_clock;
    // Shorter waits are not looked at. A rank that has looked at nothing for longer than the other was not ready
    // itself: it was stopped, or had no core.
    static constexpr std::chrono::microseconds least{50}, most{10'000};

    void count(clock::time_point until) noexcept {
        const std::chrono::duration<double> time = std::min<clock::duration>(until - since_, most);
        if (awaited_) counts_.waited(*awaited_, time.count());
    }

    call_counts counts_;
    clock::time_point since_{};                  // when polls were in vain, as far as it is not counted; 0: none was
    std::optional<call_counts::place> awaited_;  // where the rank waits, once it has waited for long enough
};

}  // namespace terrace::detail
