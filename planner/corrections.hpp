#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/profile.hpp"
#include "planner/figures.hpp"

namespace terrace::detail {

/// What calls of real runs say of figures that they can only tell of together: the bandwidth of a level; the latencies
/// and overheads of all levels of one fabric; the rate of reductions.
struct judged_figures {
    enum class verdict : std::uint8_t {
        corrected,
        as_written,   ///< the calls took what the figures say
        small_part,   ///< of no call's time they make up a quarter
        disagreeing,  ///< no factor brings the prices of half of the calls near their times
    };

    std::vector<figure> of;
    verdict what = verdict::as_written;
    double factor = 1;  ///< what they are, relative to their values
};

/// What profiles say of a machine.
struct corrected_machine {
    hierarchy machine;  ///< corrected
    /// Start-ups, bandwidths and the rate of reductions, each innermost level first.
    std::vector<judged_figures> judged = {};
    int sizes = 0;    ///< collectives and sizes whose times were used
    int unknown = 0;  ///< those that were left out, since they depend on figures that were left
    int others = 0;   ///< profiles of machines of another shape, which were not used
    /// Time over prediction, the least and the largest of the sizes used: by the machine as it was, and as it is
    /// corrected.
    double least_before = 0, most_before = 0, least = 0, most = 0;

    bool changed() const noexcept {
        return std::ranges::find(judged, judged_figures::verdict::corrected, &judged_figures::what) != judged.end();
    }
};

/// Corrects the figures of a machine so that the prices of what ran come as near as they can to the times that it took:
/// the factors f minimise the sum of ln(price / time)^2 over sizes, errors beyond 0.2 in proportion (Huber), plus a
/// small weight times ln(f)^2, plus a larger one times ln(f / g)^2 over the bandwidths of levels of one fabric, so that
/// of two levels which times cannot tell apart not one alone is corrected. Factors lie between 1/8 and 8; those within
/// 10 % of 1 are left out. Figures that the times do not determine stay as written. A size is not used if a quarter of
/// its time depends on such figures.
corrected_machine correct(const hierarchy& machine, const std::vector<profile>& profiles);

}  // namespace terrace::detail
