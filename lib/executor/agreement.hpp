#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/transport.hpp"

namespace terrace {

/// What all ranks of a communicator must have in common (version, plan, options), in a form that travels.
using identity = std::array<char, 256>;

/// `text`; of a longer one than fits both ends, with "..." between: what goes wrong stands at the end, behind paths.
identity identity_of(std::string_view text);

/// Everybody's text, by rank. Collective. @throws transport_error
std::vector<std::string> gather_texts(const std::string& own, transport& net);

/// Who has what, by rank, where not all have the same: "ranks 0-2, 5 have A; rank 4 has B", what most have first. Empty
/// where all have the same.
std::string differences(std::span<const std::string> all);

/// @param all every rank's, in any order that all ranks agree on
/// @throws plan_error if they differ, naming who has what: most ranks are right, as a rule
void require_agreement(std::span<const identity> all);

}  // namespace terrace
