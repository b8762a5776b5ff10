#pragma once

#include <array>
#include <span>
#include <string_view>

namespace terrace {

/// What all ranks of a communicator must have in common (version, plan, options), in a form that travels.
using identity = std::array<char, 96>;

/// `text`, cut to what fits.
identity identity_of(std::string_view text);

/// @param all every rank's, in any order that all ranks agree on
/// @throws plan_error if they differ. What most ranks have is taken to be right, and the others are named.
void require_agreement(std::span<const identity> all);

}  // namespace terrace
