#pragma once

#include <cstdint>
#include <vector>

#include "planner/simulate/links.hpp"

namespace terrace {

/// What shapers let pass: each direction of a network's link has a bucket that fills with tokens, a byte's worth each,
/// at the link's rate, up to so many. As long as there are any, the link is faster than its rate by far. So a link that
/// is busy now and then carries what it gets at once, and one that is always busy carries its rate.
class buckets {
public:
    /// @param most tokens of a full bucket; all are full at first. 0: there are none
    buckets(const link_loads& links, double most);

    /// What a link carries now [B/s], and what it carries at best.
    double capacity(int link) const noexcept { return rate_of(link, has(link) && !at(link).empty); }
    double best(int link) const noexcept { return rate_of(link, has(link)); }

    /// What passes a link changes by so much [B/s].
    void add(int link, double by, double now);
    /// After that: calls f(link, time, version) for each that will then have used up its tokens.
    template <class F>
    void settle(double now, F&& f) {
        for (const int link : touched_) {
            bucket& b = at(link);
            const double rate = links_.rate(link);
            b.touched = false;
            ++b.version;
            if (b.empty && b.load < rate * (1 - rounding)) {
                b.empty = false;
                b.since = now;
            }
            if (!b.empty && b.load > rate * (1 + rounding)) f(link, now + b.tokens / (b.load - rate), b.version);
        }
        touched_.clear();
    }
    /// That time has come. False if the link's load has changed since.
    bool run_out(int link, std::uint32_t version);

private:
    struct bucket {
        double tokens = 0, load = 0, since = 0;
        std::uint32_t version = 0;
        bool empty = false, touched = false;
    };

    static constexpr double rounding = 1e-6;
    static constexpr double speed_up = 16;  // of a link that has tokens

    bool has(int link) const noexcept { return most_ > 0 && links_.of_network(link); }
    double rate_of(int link, bool fast) const noexcept { return links_.rate(link) * (fast ? speed_up : 1); }
    bucket& at(int link) noexcept { return all_[static_cast<std::size_t>(link)]; }
    const bucket& at(int link) const noexcept { return all_[static_cast<std::size_t>(link)]; }

    const link_loads& links_;
    double most_;
    std::vector<bucket> all_;  // by link, if there are any
    std::vector<int> touched_;
};

}  // namespace terrace
