#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/figures.hpp"
#include "planner/planner.hpp"

namespace terrace::detail {

/// What another value of an assumed figure does to a plan.
struct sensitivity {
    figure of = {};
    double factor = 1;  ///< the other value, relative to the assumed one
    /// Predicted time of the rule whose time changes most, relative to that with the assumed value.
    double time = 1;
    collective time_of = collective::allreduce;
    std::int64_t time_at = 0;  ///< [B]
    /// How much the plan gains from being made anew, at most: predicted time of a rule beside that of the best
    /// candidate, relative to the same ratio with the assumed value.
    double gain = 1;
    collective gain_of = collective::allreduce;
    std::int64_t gain_at = 0;        ///< [B]
    std::vector<stage> choice = {};  ///< that candidate's

    /// How much the time changes, in either direction; 1: not at all.
    double change() const noexcept { return time < 1 ? 1 / time : time; }
};

/// Prices the rules of a plan with each assumed figure halved and doubled. Those that change a time most come first.
/// @param gains looks for them among all candidates; else rates are only halved and times doubled, which changes
///              predictions at least as much as the reverse
/// @param of the one collective whose rules are priced; none: all
std::vector<sensitivity> sensitivities(const plan_data& plan, bool gains, std::optional<collective> of = {});

}  // namespace terrace::detail
