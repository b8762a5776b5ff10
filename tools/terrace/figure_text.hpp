#pragma once

#include <string>
#include <vector>

#include "planner/corrections.hpp"
#include "planner/figures.hpp"
#include "planner/kept_rules.hpp"

namespace terrace::detail {

/// Returns "bandwidth of rack", "rate of reductions".
std::string name_of(const hierarchy& machine, const figure& f);

/// Returns the value of a figure, or so many times it, with its unit.
std::string value_text(const figure& f, double factor = 1);

/// What half and twice the value of each assumed figure would change, those that change a time most first; figures
/// that change no time and no choice by more than 10 % are only counted. Prices all candidates anew for each.
std::string sensitivity_text(const plan_data& plan);

/// One line: the assumed figure on which the times of allreduce depend most; empty if there is none.
std::string most_sensitive_text(const plan_data& plan);

/// Returns lines that say which figures profiles have changed and which not, and why. @param before the machine as it
/// was
std::string corrections_text(const hierarchy& before, const corrected_machine& c);

/// Returns lines that name the sizes for which rules that ran stay; nothing if there are none.
std::string kept_text(const std::vector<kept_range>& kept);

}  // namespace terrace::detail
