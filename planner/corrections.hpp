#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/profile.hpp"
#include "planner/figures.hpp"

namespace terrace::detail {

/// Figures that real calls can only correct together, and the result: the bandwidth of a level; the latencies and
/// overheads of all levels of one fabric; or the rate of reductions.
struct judged_figures {
    enum class verdict : std::uint8_t {
        corrected,
        as_written,   ///< the calls agree with the figures
        small_part,   ///< the figures make up less than a quarter of every call's time
        disagreeing,  ///< no factor brings the prices of half of the calls near their times
    };

    std::vector<figure> of;
    verdict what = verdict::as_written;
    double factor = 1;  ///< corrected values relative to the values as written
};

/// A machine corrected by profiles, and how well prices then agree with measured times.
struct corrected_machine {
    hierarchy machine;  ///< with the corrected figures
    /// Start-ups, bandwidths and the rate of reductions, each innermost level first.
    std::vector<judged_figures> judged = {};
    int sizes = 0;    ///< pairs of collective and size whose times were used
    int unknown = 0;  ///< pairs not used, since their times depend on undetermined figures
    int others = 0;   ///< profiles not used, since their machines have another shape
    /// Smallest and largest ratio of time to prediction over the sizes used, before and after the correction.
    double least_before = 0, most_before = 0, least = 0, most = 0;

    bool changed() const noexcept {
        return std::ranges::find(judged, judged_figures::verdict::corrected, &judged_figures::what) != judged.end();
    }
};

/// Corrects the figures of a machine, so that the prices of the profiled calls come as near as possible to their times.
/// The factors f minimise the sum of ln(price / time)^2 over sizes (Huber: linear beyond 0.2), plus a small weight
/// times ln(f)^2, plus a larger weight times ln(f / g)^2 over the bandwidths of levels of one fabric. So two levels
/// that times cannot tell apart are corrected together. Factors lie between 1/8 and 8; factors within 10 % of 1 are
/// ignored. Figures that the times do not determine stay as written. A size is not used if a quarter of its time
/// depends on such figures.
corrected_machine correct(const hierarchy& machine, const std::vector<profile>& profiles);

}  // namespace terrace::detail
