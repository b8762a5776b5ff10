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

/// One way in which MPI libraries run a collective, from or to root 0, and what they call it.
struct library_algorithm {
    std::string_view name;
    collective what;
    /// Returns the steps of a segment of so many bytes, of the whole call where there are no segments; of all blocks
    /// together where there are blocks. Empty if the algorithm does not run on so many ranks.
    std::vector<library_step> (*steps)(int ranks, double bytes);
    std::int64_t segment = 0;  ///< [bytes] segments follow one another through the steps; 0: there is one
    int openmpi = 0;           ///< as coll_tuned_..._algorithm takes it; 0: Open MPI has none
    int intel = 0;             ///< as I_MPI_ADJUST_... takes it; 0: Intel MPI has none
    int mpich = 0;             ///< as MPIR_CVAR_..._INTRA_COMPOSITION takes it; 0: it is no composition of MPICH
    bool by_nodes = false;     ///< the steps are those between nodes
};

/// All of them, by collective, the simplest first.
std::span<const library_algorithm> library_algorithms() noexcept;

/// Says which algorithm runs messages from `from` bytes on.
struct library_choice {
    std::int64_t from = 0;
    const library_algorithm* how = nullptr;
};
using library_choices = std::map<collective, std::vector<library_choice>>;

/// Returns the rules of Open MPI's component `tuned` for communicators of so many ranks. Others, and collectives
/// without a choice, keep Open MPI's own.
std::string openmpi_rules_text(int ranks, const library_choices& choices);

/// Returns the time of a call [s]: for each step a start-up, the messages' overhead and the bytes of the busiest link;
/// of further segments what the busiest link or rank takes for one. Infinite if the algorithm does not run on so many
/// ranks. @param machine no torus
double library_time(const hierarchy& machine, const library_algorithm& how, std::int64_t bytes);

}  // namespace terrace::detail
