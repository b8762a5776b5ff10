#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/figures.hpp"
#include "planner/planner.hpp"

namespace terrace::detail {

/// Effect of another value of an assumed figure on a plan.
struct sensitivity {
    figure of = {};
    double factor = 1;  ///< the other value, relative to the assumed one
    /// Predicted time of the rule whose time changes most, relative to its time with the assumed value.
    double time = 1;
    collective time_of = collective::allreduce;
    std::int64_t time_at = 0;  ///< [B]
    /// Largest gain of a new plan: ratio of a rule's predicted time to that of the best candidate, relative to the same
    /// ratio with the assumed value.
    double gain = 1;
    collective gain_of = collective::allreduce;
    std::int64_t gain_at = 0;        ///< [B]
    std::vector<stage> choice = {};  ///< stages of that candidate

    /// Returns the factor by which the time changes, in either direction; 1: no change.
    double change() const noexcept { return time < 1 ? 1 / time : time; }
};

/// Prices the rules of a plan with each assumed figure halved and doubled. Figures that change a time most come first.
/// @param gains compares with all candidates, too. Otherwise rates are only halved and times doubled, since this
/// changes predictions at least as much as the reverse.
/// @param of collective whose rules are priced; none: all
std::vector<sensitivity> sensitivities(const plan_data& plan, bool gains, std::optional<collective> of = {});

}  // namespace terrace::detail
