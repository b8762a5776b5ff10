#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine/hierarchy.hpp"
#include "plan/plan_data.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

/// A level with its rate [B/s], and its latency and overhead [s].
level link(std::string name, fabric medium, double bandwidth, double latency, double overhead);

/// A machine of the given shape with levels named l0, l1, ...
hierarchy machine_of(tree shape);

/// Uniform machines of P ranks: one level of P, and one level per prime factor of P. Splitting the first and merging
/// the second give every ordered factorisation.
std::vector<hierarchy> uniform_machines(int ranks);

/// Machines with unequal domains, up to 24 ranks.
std::vector<hierarchy> uneven_machines();

/// All of them with so many ranks.
std::vector<hierarchy> machines_of_size(int ranks);

/// A torus of the last `dimensions` sizes of a uniform shape, the others inside its nodes.
hierarchy torus_of(const std::vector<int>& shape, int dimensions);

/// Small tori, with and without something inside their nodes.
std::vector<hierarchy> tori();

/// Any machine of so many ranks, up to four levels deep, with any nodes; now and then a torus.
hierarchy random_machine(int ranks, dice& d);

/// The same machine with its outermost levels, any number of them, between nodes.
hierarchy with_random_nodes(hierarchy machine, dice& d);

/// "[4,2] [2]": children per domain, innermost level first.
std::string text(const tree& shape);

/// Returns the stage, run by an algorithm, as "ring", or by a provider's own collective, as "shared_memory".
stage run_by(stage s, std::string_view by);

/// Returns a stage for each level, in mode scatter by algorithm direct, with these wire types.
std::vector<stage> direct_stages(const hierarchy& machine, const std::vector<wire_type>& wires);

/// Every way to cover the levels by stages (each kept, merged with its neighbours, or split), without modes and
/// algorithms.
std::vector<std::vector<stage>> stagings(const hierarchy& machine);

/// How many ways there are to give each of `stages` a mode and an algorithm of the registry.
std::size_t choices(std::size_t stages);

/// One of these ways, 0 <= choice < choices(stages.size()).
std::vector<stage> with_choice(std::vector<stage> stages, std::size_t choice);

/// Every way for the dimensions of a torus to come first, each with up to `most` shares of the vector; none where they
/// may not.
std::vector<std::vector<stage>> turns_of(const hierarchy& machine, const std::vector<stage>& stages, int most);

/// Whether replicate stands only where it may: outermost, or below siblings of equal size.
bool fits(const hierarchy& machine, const std::vector<stage>& stages);

/// Whether the stages are in modes, and run algorithms, that can do the collective.
bool able(const std::vector<stage>& stages, collective what);

/// Stages that fit the machine and can do the collective; on a torus dimensions may take turns at coming first.
std::vector<stage> random_stages(const hierarchy& machine, collective what, dice& d);

}  // namespace terrace::detail::test
