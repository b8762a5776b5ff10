#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// A message of an algorithm of an MPI library.
struct library_message {
    int from = 0, to = 0;
    double bytes = 0;
    bool added = false;  ///< the receiver adds it to what it has
};

/// Messages that leave at the same time, `times` such steps one after another.
struct library_step {
    std::vector<library_message> messages = {};
    int times = 1;
};

/// Returns the steps of a segment of so many bytes, of the whole call where there are no segments; of all blocks
/// together where there are blocks. Empty if the algorithm does not run on so many ranks.
using library_steps = std::vector<library_step> (*)(int ranks, double bytes);

/// One way in which MPI libraries run a collective, from or to root 0, and what they call it.
struct library_algorithm {
    std::string_view name;
    collective what;
    library_steps steps;
    std::int64_t segment = 0;  ///< [bytes] segments follow one another through the steps; 0: there is one
    int openmpi = 0;           ///< as coll_tuned_..._algorithm takes it; 0: Open MPI has none
    int intel = 0;             ///< as I_MPI_ADJUST_... takes it; 0: Intel MPI has none
    int mpich = 0;             ///< its composition: 1 alpha, 2 beta, 3 gamma; 0: MPICH has none
    library_steps reduce_inside = nullptr, broadcast_inside = nullptr;  ///< of nodes, if `steps` are between nodes
    int han = 0;                                                        ///< 1: what Open MPI's component `han` comes to
};

/// All of them, by collective, the simplest first.
std::span<const library_algorithm> library_algorithms() noexcept;

/// Returns what Open MPI 4.1 to 6 chooses by itself for at least 64 bytes; null if that is none of the above.
/// @param ranks at least 2
const library_algorithm* openmpi_choice(collective what, int ranks, double bytes) noexcept;

/// Says which algorithm runs messages from `from` bytes on.
struct library_choice {
    std::int64_t from = 0;
    const library_algorithm* how = nullptr;  ///< null: what the library chooses by itself
};
using library_choices = std::map<collective, std::vector<library_choice>>;

/// A collective of MPI libraries.
struct library_collective {
    collective what;
    int openmpi;             ///< its number in Open MPI's files
    std::string_view upper;  ///< its name in variables
    std::string_view mpich;  ///< in MPICH's file
};
/// Those that rules are for.
std::span<const library_collective> library_collectives() noexcept;

/// Returns the rules of Open MPI's component `tuned` for communicators of so many ranks. Others, and collectives
/// without a choice, keep Open MPI's own.
std::string openmpi_rules_text(int ranks, const library_choices& choices);

/// Returns the file by which MPICH runs these compositions in communicators of so many ranks. Others go node by node,
/// as do collectives without a choice.
std::string mpich_compositions_text(int ranks, const library_choices& choices);

/// Returns the time of a call [s]: each rank goes from step to step as its own messages arrive, at the links' rates,
/// with start-ups and overhead; further segments take what the busiest link or rank takes for one. Infinite if the
/// algorithm does not run on so many ranks. @param machine no torus
double library_time(const hierarchy& machine, const library_algorithm& how, std::int64_t bytes);

}  // namespace terrace::detail
