#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine/hierarchy.hpp"
#include "plan/plan_data.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

/// Returns a level with this rate [B/s], latency and overhead [s].
level link(std::string name, fabric medium, double bandwidth, double latency, double overhead);

/// Returns a machine of the given shape with levels named l0, l1, ...
hierarchy machine_of(tree shape);

/// Returns uniform machines of P ranks: with one level of P, and with one level per prime factor of P. Splitting the
/// first and merging the second give every ordered factorisation.
std::vector<hierarchy> uniform_machines(int ranks);

/// Returns machines with unequal domains, up to 24 ranks.
std::vector<hierarchy> uneven_machines();

/// Returns the uniform and uneven machines with this number of ranks.
std::vector<hierarchy> machines_of_size(int ranks);

/// Returns a torus of the last `dimensions` sizes of a uniform shape. The other levels are inside its nodes.
hierarchy torus_of(const std::vector<int>& shape, int dimensions);

/// Returns small tori, with and without levels inside their nodes.
std::vector<hierarchy> tori();

/// Returns a random machine of this number of ranks, up to four levels deep, with any nodes; sometimes a torus.
hierarchy random_machine(int ranks, dice& d);

/// Returns the machine with a random number of its outermost levels between nodes.
hierarchy with_random_nodes(hierarchy machine, dice& d);

/// Returns the children per domain, innermost level first, as "[4,2] [2]".
std::string text(const tree& shape);

/// Returns the stage, run by an algorithm, as "ring", or by a provider's own collective, as "shared_memory".
stage run_by(stage s, std::string_view by);

/// Returns a stage for each level, in mode scatter by algorithm direct, with these wire types.
std::vector<stage> direct_stages(const hierarchy& machine, const std::vector<wire_type>& wires);

/// Returns every way to cover the levels by stages (each level kept, merged with its neighbours, or split), without
/// modes and algorithms.
std::vector<std::vector<stage>> stagings(const hierarchy& machine);

/// Returns the number of ways to give each of `stages` stages a mode and an algorithm of the registry.
std::size_t choices(std::size_t stages);

/// Returns the stages with one of these choices, 0 <= choice < choices(stages.size()).
std::vector<stage> with_choice(std::vector<stage> stages, std::size_t choice);

/// Returns every way for dimensions of a torus to come first, each with up to `most` shares of the vector; nothing if
/// the stages allow no routes.
std::vector<std::vector<stage>> turns_of(const hierarchy& machine, const std::vector<stage>& stages, int most);

/// Returns whether mode replicate is only outermost, or below siblings of equal size, as it must be.
bool fits(const hierarchy& machine, const std::vector<stage>& stages);

/// Returns whether the stages' modes and algorithms can do the collective.
bool able(const std::vector<stage>& stages, collective what);

/// Returns random stages that fit the machine and can do the collective; on a torus, sometimes with routes.
std::vector<stage> random_stages(const hierarchy& machine, collective what, dice& d);

}  // namespace terrace::detail::test
