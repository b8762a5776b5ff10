#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "statistics/statistics_file.hpp"

namespace terrace::detail {

/// The delays by a rank or host, from the files of all ranks.
struct rank_lateness {
    std::string host{};
    double held_up = 0;  ///< time that others waited for it, without its own waits [s]
    double steady = 0;   ///< `held_up` without the twentieth of slices in which it is longest [s]
    double waited = 0;   ///< time that it waited for others [s]
};

/// The ranks and hosts that delay others.
///
/// A rank that waits makes others wait. So in each slice of calls, a rank holds up others for the longest time that one
/// of them waited for it, minus the time that it waited itself. The last rank in a chain of waits is charged with all
/// of the delay, the ranks in between with nothing.
struct lateness {
    std::map<int, rank_lateness> ranks;          ///< by rank of the whole job
    std::map<std::string, rank_lateness> hosts;  ///< by name: sums over their ranks
    std::map<int, double> stages;                ///< by stage: total waits of all ranks [s]
    /// Totals of all ranks, by name and bytes_from.
    struct calls_of_size {
        std::int64_t calls = 0;
        double seconds = 0, waited = 0, limit = 0;
    };
    std::map<std::pair<std::string, std::int64_t>, calls_of_size> calls;
    double seconds = 0;  ///< longest time of a rank in calls [s]
    /// A part of the calls of the communicator with the longest delays: delay by rank [s].
    struct part {
        std::int64_t first_call = 0;
        std::map<int, double> held_up;
    };
    std::vector<part> parts;
    /// Returns a sentence that names the worst rank or host: one that is late steadily, or else one that was late for a
    /// while; or that says that none stands out.
    std::string sentence() const;
};

lateness lateness_of(const std::vector<rank_statistics>& files);

}  // namespace terrace::detail
