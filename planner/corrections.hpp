#pragma once

#include <vector>

#include "plan/profile.hpp"
#include "planner/figures.hpp"

namespace terrace::detail {

/// A figure of a machine which calls of real runs show to be another one.
struct correction {
    figure of = {};
    double factor = 1;  ///< what it is, relative to its value
};

/// What profiles say of a machine.
struct corrected_machine {
    hierarchy machine;                         ///< corrected
    std::vector<correction> corrections = {};  ///< innermost level first
    int sizes = 0;                             ///< collectives and sizes whose times were used
    int in_bursts = 0;                         ///< those that were left out, since shapers let them pass in bursts
    int others = 0;                            ///< profiles of machines of another shape, which were not used
    /// Time over prediction, the least and the largest of all sizes: by the machine as it was, and as it is corrected.
    double least_before = 0, most_before = 0, least = 0, most = 0;
};

/// Corrects the figures of a machine so that the prices of what ran come as near as they can to the times that it took:
/// the factors f minimise the sum of ln(price / time)^2 over sizes, errors beyond 0.2 in proportion (Huber), plus a
/// small weight times ln(f)^2 over figures, so that those which no size depends on stay as they are, plus a larger one
/// times ln(f / g)^2 over figures of one kind on levels of one fabric, so that of two levels which times cannot tell
/// apart not one alone is corrected. Factors lie between 1/8 and 8; those within 3 % of 1 are left out.
/// @param burst as in make_plan(): sizes from 1/8 of a bucket to 8 buckets are left out
corrected_machine correct(const hierarchy& machine, const std::vector<profile>& profiles, double burst = 0);

}  // namespace terrace::detail
