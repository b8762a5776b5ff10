#pragma once

#include <cstdint>
#include <span>
#include <string>
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

/// Prices the rules of some collectives of a plan with each assumed rate halved and each assumed time doubled: that
/// changes predictions at least as much as the reverse. Gains are not looked for. Those that change a time most come
/// first.
std::vector<sensitivity> time_sensitivities(const plan_data& plan, std::span<const collective> of);

/// Does the same for all collectives of a plan, with each figure halved and doubled, and looks among all candidates for
/// gains.
std::vector<sensitivity> sensitivities(const plan_data& plan);

}  // namespace terrace::detail
