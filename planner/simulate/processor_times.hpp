#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail::sim {

/// The processors of all ranks, and how long they are busy. A rank sends on one timeline, and receives, copies and
/// reduces on another, as in the cost model; on each it does one thing after another.
class processor_times {
public:
    explicit processor_times(const hierarchy& machine);

    /// Occupies a rank with one end of a message that it sends.
    /// @param overhead the message's own cost [s]   @param bytes that the rank copies besides
    /// @returns when it is through [s]
    double send(int rank, double now, double overhead, double bytes);
    /// Occupies a rank with anything else.
    double work(int rank, double now, double overhead, double bytes);
    /// Returns when a rank can begin to receive, copy or reduce.
    double free_at(int rank, double now) const;

    /// Returns by rank the time that its busier timeline was occupied [s].
    std::vector<double> busy() const;

private:
    // Does one thing after another.
    struct timeline {
        double free = 0, busy = 0;  // [s]
    };

    double occupy(timeline& t, double now, double overhead, double bytes);

    std::vector<timeline> sending_, working_;  // by rank
    double access_;                            // a byte that is read or written [s]
};

}  // namespace terrace::detail::sim
