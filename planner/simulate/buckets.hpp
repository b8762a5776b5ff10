#pragma once

#include <cstdint>
#include <vector>

#include "planner/simulate/links.hpp"

namespace terrace::detail {

/// Token buckets of traffic shapers. Each direction of a network link has a bucket, which fills at the link's rate, one
/// token a byte, up to a limit; the link of a node with NICs has as much as all of theirs. While it holds tokens, the
/// link is much faster than its rate. So a link that is idle most of the time passes a burst at once, and a link that
/// is always busy passes its rate.
class buckets {
public:
    /// @param most tokens of a full bucket of one shaper; all are full at first. 0: no link has a bucket
    buckets(const link_loads& links, double most);

    /// Return the rate of a link now, and its rate while it has tokens [B/s].
    double capacity(int link) const noexcept { return capacity_[static_cast<std::size_t>(link)]; }
    double best(int link) const noexcept { return rate_of(link, has(link)); }

    /// Changes the load of a link by so much [B/s].
    void add(int link, double by, double now);
    /// Follows all changes of a moment. Calls f(link, time, version) for each link whose tokens will run out at that
    /// time, if its load stays the same.
    template <class F>
    void settle(double now, F&& f) {
        for (const int link : touched_) {
            bucket& b = at(link);
            const double rate = links_.rate(link);
            b.touched = false;
            ++b.version;
            if (b.empty && b.load < rate * (1 - rounding)) {
                set_empty(link, false);
                b.since = now;
            }
            if (!b.empty && b.load > rate * (1 + rounding)) f(link, now + b.tokens / (b.load - rate), b.version);
        }
        touched_.clear();
    }
    /// Empties a bucket when that time has come. Returns false if the load has changed since, which voids the event.
    bool run_out(int link, std::uint32_t version);

private:
    struct bucket {
        double tokens = 0, load = 0, since = 0;
        std::uint32_t version = 0;
        bool empty = false, touched = false;
    };

    static constexpr double rounding = 1e-6;
    static constexpr double speed_up = 16;  // of a link that has tokens, over its rate

    bool has(int link) const noexcept { return most_ > 0 && links_.shapers(link) > 0; }
    double rate_of(int link, bool fast) const noexcept { return links_.rate(link) * (fast ? speed_up : 1); }
    void set_empty(int link, bool empty) noexcept {
        at(link).empty = empty;
        capacity_[static_cast<std::size_t>(link)] = rate_of(link, !empty);
    }
    bucket& at(int link) noexcept { return all_[static_cast<std::size_t>(link)]; }
    double tokens_of(int link) const noexcept { return most_ * links_.shapers(link); }
    const bucket& at(int link) const noexcept { return all_[static_cast<std::size_t>(link)]; }

    const link_loads& links_;
    double most_;
    std::vector<double> capacity_;  // by link
    std::vector<bucket> all_;       // by link; empty if no link has a bucket
    std::vector<int> touched_;      // links whose load has changed since settle()
};

}  // namespace terrace::detail
