#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "statistics/statistics_file.hpp"

namespace terrace::detail {

/// A rank, as the files of all ranks show it.
struct rank_lateness {
    std::string host{};
    double held_up = 0;  ///< how long it kept others waiting, without the time that it waited itself [s]
    double steady = 0;   ///< the same without the twentieth of slices in which that is longest [s]
    double waited = 0;   ///< for others [s]
};

/// Who is late.
///
/// A rank that waits makes others wait. So of the time that others waited for a rank in a slice of calls, that counts
/// which is longer than the rank waited itself: the longest of the others' waits less the rank's own. The rank at the
/// end of a chain of waits keeps all of it; those in between keep nothing.
struct lateness {
    std::map<int, rank_lateness> ranks;          ///< by number in the job
    std::map<std::string, rank_lateness> hosts;  ///< the sums of their ranks
    std::map<int, double> stages;                ///< by stage: what all ranks waited in it [s]
    /// By name and least bytes: what all ranks did together.
    struct calls_of_size {
        std::int64_t calls = 0;
        double seconds = 0, waited = 0, limit = 0;
    };
    std::map<std::pair<std::string, std::int64_t>, calls_of_size> calls;
    double seconds = 0;  ///< the longest that a rank was in calls
    /// The communicator that waited longest: parts of its calls, and what each rank held up in them [s].
    struct part {
        std::int64_t first_call = 0;
        std::map<int, double> held_up;
    };
    std::vector<part> parts;
    /// Names the worst rank or host: one that is late again and again, or else one that was late for a while. Or says
    /// that none stands out.
    std::string sentence() const;
};

lateness lateness_of(const std::vector<rank_statistics>& files);

}  // namespace terrace::detail
