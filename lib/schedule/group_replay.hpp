#pragma once

#include <optional>
#include <string>

#include "schedule/compose.hpp"

namespace terrace::detail {

/// Follows what ranks have from stage to stage, from the groups alone. Returns nothing if in the end the owners, and
/// nobody else, have every rank's contribution to what they own; else what does not fit.
/// @param hands_down stages in mode root hand down what they have gathered, before owners own it
std::optional<std::string> replay_groups(const composition& c, bool hands_down);

}  // namespace terrace::detail
