#pragma once

#include <string>
#include <vector>

#include "planner/corrections.hpp"
#include "planner/figures.hpp"
#include "planner/kept_rules.hpp"

namespace terrace::detail {

/// Returns "bandwidth of rack", "rate of reductions".
std::string name_of(const hierarchy& machine, const figure& f);

/// Returns the value of a figure, multiplied by a factor, with its unit.
std::string value_text(const figure& f, double factor = 1);

/// Returns the effects of half and twice the value of each assumed figure, largest effect on a time first. Figures that
/// change no time and no choice by more than 10 % are only counted. Prices all candidates anew for each figure.
std::string sensitivity_text(const plan_data& plan);

/// Returns one line with the assumed figure on which the times of allreduce depend most; empty if there is none.
std::string most_sensitive_text(const plan_data& plan);

/// Returns lines with the figures that profiles have corrected or not, and why. @param before the original machine
std::string corrections_text(const hierarchy& before, const corrected_machine& c);

/// Returns lines with the sizes for which profiled rules are kept; empty if there are none.
std::string kept_text(const std::vector<kept_range>& kept);

}  // namespace terrace::detail
