#pragma once

#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Groups, ranks by position, that have no ranks in common.
using disjoint_groups = std::vector<std::vector<int>>;

/// Returns the groups of the stages that NCCL runs as its own collectives, which it must know beforehand: one list for
/// each stage whose groups have no ranks in common, as in even domains, where they are the same for every count. No
/// list is returned twice. Collectives with a root have root 0.
std::vector<disjoint_groups> nccl_groups(const plan_data& r);
/// Returns the same for one collective, with this root if it has one.
std::vector<disjoint_groups> nccl_groups(const plan_data& r, collective what, int root);

/// Returns the groups of the stages that MPI runs as its own collectives, sorted, each once.
std::vector<std::vector<int>> mpi_groups(const plan_data& r);

/// Returns true if a stage of the rule is a collective of shared memory, or of NCCL for device buffers.
bool any_follows_buffers(const rule& r);
/// Returns true if a stage of the plan has provider mpi.
bool any_over_mpi(const plan_data& r);

/// Returns the most stages that any rule of the plan has.
int most_stages(const plan_data& r);

}  // namespace terrace::detail
