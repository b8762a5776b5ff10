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
    bool added = false;  ///< the receiver reduces it into its own data
};

/// Messages sent at the same time, in `times` equal steps one after another.
struct library_step {
    std::vector<library_message> messages = {};
    int times = 1;
};

/// Returns the steps for a segment, or for the whole call if there are no segments. `bytes` is the size of the segment
/// or call, of all blocks together. Empty if the algorithm does not support this number of ranks.
using library_steps = std::vector<library_step> (*)(int ranks, double bytes);

/// One way in which MPI libraries run a collective, from or to root 0, and its names there.
struct library_algorithm {
    std::string_view name;
    collective what;
    library_steps steps;
    std::int64_t segment = 0;  ///< [bytes] segments pass the steps one after another; 0: one segment
    int openmpi = 0;           ///< value of coll_tuned_..._algorithm; 0: Open MPI has none
    int intel = 0;             ///< value of I_MPI_ADJUST_...; 0: Intel MPI has none
    int mpich = 0;             ///< its composition: 1 alpha, 2 beta, 3 gamma; 0: MPICH has none
    library_steps reduce_inside = nullptr, broadcast_inside = nullptr;  ///< in nodes, if `steps` are between nodes
    int han = 0;                                                        ///< 1: equivalent to Open MPI's `han`
};

/// Returns all algorithms, by collective, the simplest first.
std::span<const library_algorithm> library_algorithms() noexcept;

/// Returns Open MPI's own choice, in versions 4.1 to 6, for at least 64 bytes; null if it is none of the above.
/// @param ranks at least 2
const library_algorithm* openmpi_choice(collective what, int ranks, double bytes) noexcept;

/// The algorithm for messages of at least `from` bytes.
struct library_choice {
    std::int64_t from = 0;
    const library_algorithm* how = nullptr;  ///< null: the library's own choice
};
using library_choices = std::map<collective, std::vector<library_choice>>;

/// A collective of MPI libraries.
struct library_collective {
    collective what;
    int openmpi;             ///< its number in Open MPI's files
    std::string_view upper;  ///< name in variables
    std::string_view mpich;  ///< name in MPICH's file
};
/// Returns the collectives for which rules are made.
std::span<const library_collective> library_collectives() noexcept;

/// Returns the rules of Open MPI's component `tuned` for communicators with this number of ranks. Other communicators,
/// and collectives without a choice, keep Open MPI's own rules.
std::string openmpi_rules_text(int ranks, const library_choices& choices);

/// Returns the file with which MPICH runs these compositions in communicators with this number of ranks. Other
/// communicators, and collectives without a choice, run node by node.
std::string mpich_compositions_text(int ranks, const library_choices& choices);

/// Returns the time of a call [s]. Each rank advances when its own messages arrive, at the links' rates, with start-ups
/// and overhead. Further segments cost as much as the busiest link or rank needs for one. Infinite if the algorithm
/// does not support this number of ranks. @param machine no torus
double library_time(const hierarchy& machine, const library_algorithm& how, std::int64_t bytes);

}  // namespace terrace::detail
