#pragma once

#include <string>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// What half and twice the value of each assumed figure would change, those that change a time most first; figures
/// that change no time and no choice by more than 10 % are only counted. Prices all candidates anew for each.
std::string sensitivity_text(const plan_data& plan);

/// One line: the assumed figure on which the times of allreduce depend most; empty if there is none.
std::string most_sensitive_text(const plan_data& plan);

}  // namespace terrace::detail
