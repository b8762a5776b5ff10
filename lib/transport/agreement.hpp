#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "transport/team.hpp"

namespace terrace::detail {

/// "rank 3", "ranks 0-2, 5". @param ranks ascending
std::string ranks_named(std::span<const std::size_t> ranks);

/// Returns who has what, by rank, where not all have the same: "ranks 0-2, 5 have A; rank 4 has B", what most have
/// first. Empty where all have the same.
std::string differences(std::span<const std::string> all);

/// Compares a text between all ranks. Collective. @throws plan_error on every rank where they differ, naming who has
/// what; transport_error
void require_same(team& ranks, const std::string& own);

}  // namespace terrace::detail
