#pragma once

#include <span>
#include <string>

#include "transport/team.hpp"

namespace terrace::detail {

/// "rank 3", "ranks 0-2, 5"; where the whole job has other numbers for them, "ranks 0-2 (ranks 4-6 of the world)".
/// @param ranks ascending   @param world_ranks by rank: its number in the whole job; empty: the same
std::string ranks_named(std::span<const int> ranks, std::span<const int> world_ranks = {});

/// Returns who has what, by rank, where not all have the same: "ranks 0-2, 5 have A; rank 4 has B", what most have
/// first. Empty where all have the same.
std::string differences(std::span<const std::string> all);

/// Compares a text between all ranks. Collective. @throws plan_error on every rank where they differ, naming who has
/// what; transport_error
void require_same(team& ranks, const std::string& own);

}  // namespace terrace::detail
