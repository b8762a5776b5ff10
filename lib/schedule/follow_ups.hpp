#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace terrace {

/// By instruction: whether it is the first send of a step that passes on what came in its stage, to other ranks than
/// the step before. Such a send had better wait until those before it have left: a rank that is a little ahead would
/// else share its link with what others wait for, and fall the further out of step with them.
std::vector<bool> follow_ups(const schedule& s);

}  // namespace terrace
