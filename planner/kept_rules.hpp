#pragma once

#include <cstdint>
#include <vector>

#include "plan/profile.hpp"

namespace terrace::detail {

/// Sizes for which a plan has a rule that ran in place of its own.
struct kept_range {
    collective what = collective::allreduce;
    std::int64_t above = 0, up_to = 0;  ///< [bytes] more than the one, up to the other
    int sizes = 0;                      ///< those whose calls took so long
    double least = 0, most = 0;         ///< time that calls took, over the time predicted of the plan's own rule
};

/// A plan in which rules that ran replace some of its own.
struct plan_that_keeps {
    plan_data plan;
    std::vector<kept_range> kept = {};  ///< by collective and size
};

/// Keeps what ran where prices promise nothing better: a rule of a profile's plan takes the place of the plan's own
/// unless that one is predicted to take less time than the calls took, and less than the rule that ran. So a plan is
/// not slower than the one that was profiled where prices are wrong. The call of a size speaks for half to twice as
/// many bytes, as far as its plan has one rule for them, and of several plans that one which ran it fastest.
/// @param profiles those of machines of another shape, or of other wire types, keep nothing
plan_that_keeps keep_what_ran(plan_data plan, const std::vector<profile>& profiles);

}  // namespace terrace::detail
