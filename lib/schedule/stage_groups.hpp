#pragma once

#include <vector>

#include "plan/recipe.hpp"
#include "schedule/registry.hpp"

namespace terrace {

/// Groups, ranks by position, that have no ranks in common.
using disjoint_groups = std::vector<std::vector<int>>;

/// The groups of a plan's native stages, for transports that must know groups beforehand: a list for each stage whose
/// groups are the same whatever the count and have no ranks in common, as those of even domains are. Each once. What
/// has a root has rank 0 for it.
std::vector<disjoint_groups> native_groups(const recipe& r);
/// Those of one collective, with that root where it has one.
std::vector<disjoint_groups> native_groups(const recipe& r, collective what, int root);

/// Whether any stage's algorithm has a property: any_stage(r, &algorithm::native).
bool any_stage(const rule& r, bool algorithm::*is);
/// Whether any stage goes over MPI between devices.
bool any_over_mpi(const recipe& r);

/// The most stages that any of its rules has.
int most_stages(const recipe& r);

}  // namespace terrace
