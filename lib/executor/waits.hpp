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
    std::vector<std::string> lines;  ///< one per wait: the call, the place in the call, the operation and the rank
    std::set<int> ranks;

    void add(int rank, std::string line) {
        ranks.insert(rank);
        lines.push_back(std::move(line));
    }
};

/// Returns the time since the first call for a wait, which is recorded in `since`. A rank that waits calls this
/// function continuously.
inline std::chrono::duration<double> time_since_first_call(std::chrono::steady_clock::time_point& since) noexcept {
    const auto now = std::chrono::steady_clock::now();
    if (since == std::chrono::steady_clock::time_point{}) since = now;
    return now - since;
}

/// Counts how long a rank waits for others in its calls.
class wait_counter {
public:
    /// Returns the counts of completed calls and of waits.
    call_counts& counts() noexcept { return counts_; }

    /// Must be called repeatedly while polls have no result. @param place returns the wait for another rank, if any
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
    /// Ends the current wait, if any, since something has happened.
    void end() noexcept {
        if (awaited_) count(clock::now());
        awaited_.reset();
        since_ = {};
    }

private:
    using clock = std::chrono::steady_clock;
    // Waits shorter than `least` are ignored. After more than `most` without a call of follow(), this rank was not
    // ready itself: it was stopped, or had no core.
    static constexpr std::chrono::microseconds least{50}, most{10'000};

    void count(clock::time_point until) noexcept {
        const std::chrono::duration<double> time = std::min<clock::duration>(until - since_, most);
        if (awaited_) counts_.waited(*awaited_, time.count());
    }

    call_counts counts_;
    clock::time_point since_{};                  // start of the time not counted yet; 0: no wait
    std::optional<call_counts::place> awaited_;  // where the rank waits, if for at least `least`
};

}  // namespace terrace::detail
