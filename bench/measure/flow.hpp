#pragma once

#include <span>
#include <vector>

#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// Value instead of a rank: there is none.
inline constexpr int no_rank = -1;

/// A stream of messages to rank `to`, and one from rank `from`; either may be no_rank. Both ends use equal sizes.
struct flow {
    int to = no_rank;
    int from = no_rank;
    int message_bytes = 0;
    int messages = 0;  ///< messages per run
};

/// Pace of a sender: one message for each that the rank receives, or as fast as its own messages complete.
enum class pace { of_receives, of_sends };

/// Sends and receives several runs in one stream without a pause. The first run warms up, and empties the token buckets
/// of shapers.
/// @returns arrival time of each message, from the start of the stream [s]; empty if this rank receives none
std::vector<double> arrivals(const world& w, const flow& f, pace sends);

/// Returns the median over runs of the time per message at the receiver [s], without start-ups and acknowledgements. 0
/// if this rank receives nothing.
double time_of_message(const world& w, const flow& f);

/// Returns the message rate while all streams run, which is until `end` [1/s]: the median of quarters 2 to 4 of that
/// time. Messages held back by a lost packet arrive at once, and would make one quarter too fast.
/// @param times as from arrivals
double arrival_rate(std::span<const double> times, double end);

/// Waits for all ranks in a barrier, asleep, to leave the cores to ranks that measure.
void wait_asleep(const world& w);

}  // namespace terrace::detail::bench
