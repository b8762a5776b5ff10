#pragma once

#include "machine/hierarchy.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

/// Returns true if plans may run a stage of these levels and mode by an algorithm, or by a provider's own collective.
///
/// * The algorithm or the collective supports the mode.
/// * On a torus, hops are counted within one dimension. Only algorithms that send to one neighbour may have a stage
///   over several dimensions. Sending to both neighbours requires a torus, where each direction has its own links.
/// * Shared memory's own collective requires ranks that share memory.
/// * NCCL's own collective requires GPUs, equal domains, since NCCL then knows the groups, and `nccl:` rates in the
///   cluster file.
bool available(const hierarchy& machine, const stage& s, const algorithm& a);

/// Returns true if plans may run a stage between GPUs by an algorithm whose messages go over MPI: the cluster file
/// gives the rates of such messages (`mpi:`).
bool available_over_mpi(const hierarchy& machine, const stage& s, const algorithm& a);

/// Returns true if ranks of a group of this size would exchange data with too many others at a time
/// (planner_policy::most_exchanges_at_once).
bool crowds(const algorithm& a, int size) noexcept;

/// Returns true if the planner considers an algorithm for groups of this size.
bool worth_a_look(const algorithm& a, mode how, int size);

}  // namespace terrace::detail
