#pragma once

#include <cstdint>
#include <vector>

#include "plan/profile.hpp"

namespace terrace::detail {

/// A range of sizes for which a profiled rule replaces the plan's own.
struct kept_range {
    collective what = collective::allreduce;
    std::int64_t above = 0, up_to = 0;  ///< more than `above` and up to `up_to` bytes
    int sizes = 0;                      ///< number of profiled sizes in the range
    double least = 0, most = 0;         ///< ratio of measured time to the time predicted for the plan's own rule
};

/// A plan in which profiled rules replace some of its own.
struct plan_that_keeps {
    plan_data plan;
    std::vector<kept_range> kept = {};  ///< by collective and size
};

/// Keeps rules of profiled plans if prices promise no improvement. A profiled rule replaces the plan's own, unless the
/// plan's own is predicted to be faster than the measured calls and than the profiled rule. So the plan is not slower
/// than the profiled one if prices are wrong. A profiled call counts for sizes from half to twice its own, within the
/// rule that ran it. If several profiles have a size, the fastest call counts.
/// @param profiles ignored if the machine has another shape, or other fabrics or wire types
plan_that_keeps keep_what_ran(plan_data plan, const std::vector<profile>& profiles);

}  // namespace terrace::detail
