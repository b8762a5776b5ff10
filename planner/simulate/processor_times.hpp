#pragma once

#include <algorithm>
#include <vector>

#include "base/index.hpp"
#include "planner/figures.hpp"

namespace terrace::detail::sim {

/// The times at which the ranks' processors are busy. A rank sends on one timeline, and receives, copies and reduces on
/// another, as in the cost model. Each timeline does one task at a time.
class processor_times {
public:
    explicit processor_times(const hierarchy& machine)
        : sending_(at(machine.ranks())), working_(sending_), access_(access_time(machine)) {}

    /// Occupies a rank with one end of a message that it sends. A copy before the send occupies the timeline that also
    /// receives.
    /// @param overhead the message's own cost [s]   @param bytes read and written by the rank's copy
    /// @returns the time when the rank has finished [s]
    double send(int rank, double now, double overhead, double bytes) {
        const double handed = occupy(sending_[at(rank)], now, overhead, 0);
        return bytes == 0 ? handed : work(rank, handed, 0, bytes);
    }
    /// Occupies a rank with any other work.
    double work(int rank, double now, double overhead, double bytes) {
        return occupy(working_[at(rank)], now, overhead, bytes);
    }
    /// Returns the time from which a rank can receive, copy or reduce [s].
    double free_at(int rank, double now) const { return std::max(now, working_[at(rank)].free); }

    /// Returns, by rank, how long its busier timeline was occupied [s].
    std::vector<double> busy() const {
        std::vector<double> result;
        for (std::size_t r = 0; r < working_.size(); ++r)
            result.push_back(std::max(sending_[r].busy, working_[r].busy));
        return result;
    }

private:
    // Does one task after another.
    struct timeline {
        double free = 0, busy = 0;  // [s]
    };

    double occupy(timeline& t, double now, double overhead, double bytes) {
        const double time = overhead + bytes * access_;
        t.busy += time;
        return t.free = std::max(t.free, now) + time;
    }

    std::vector<timeline> sending_, working_;  // by rank
    double access_;                            // time per byte read or written [s]
};

}  // namespace terrace::detail::sim
