#pragma once

#include <span>
#include <vector>

#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// In place of a rank.
inline constexpr int nobody = -1;

/// A stream of messages from this rank to `to`, and one from `from`; either may be nobody. Both ends name equal
/// sizes.
struct flow {
    int to = nobody;
    int from = nobody;
    int message_bytes = 0;
    int messages = 0;  ///< of one run
};

/// How fast a rank sends: a message for each that it receives, or as fast as its own messages pass.
enum class pace { of_receives, of_sends };

/// Sends and receives several runs in one stream without a pause: the first warms up and empties the buckets of
/// shapers.
/// @returns when each message was there, from the begin of the stream [s]; nothing where none arrives
std::vector<double> arrivals(const world& w, const flow& f, pace sends);

/// Median time of one message over the runs, where it arrives: start-ups and acknowledgements do not count [s]. 0 where
/// nothing arrives.
double time_of_message(const world& w, const flow& f);

/// Messages per second that arrive while all the streams run that end at `end` or later: the median of three quarters
/// of that time, the first left out. What a lost packet held back arrives at once, and would make one quarter too fast.
/// @param times as from arrivals
double arrival_rate(std::span<const double> times, double end);

/// A barrier that leaves the cores to those who measure.
void wait_asleep(const world& w);

}  // namespace terrace::detail::bench
