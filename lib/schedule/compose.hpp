#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/recipe.hpp"
#include "schedule/registry.hpp"

namespace terrace {

/// One group of one stage: the owners, one per sibling domain, of one segment of the vector.
struct cohort {
    range segment;
    std::vector<int> members;   ///< ranks by position: one per sibling
    std::vector<range> shards;  ///< of the segment, by position
    int root = 0;               ///< position that keeps the segment in mode root
};

/// All groups of one stage. Cohorts with no ranks in common run side by side.
struct composed_stage {
    mode how = mode::scatter;
    const algorithm* by = nullptr;
    int steps_up = 0, steps_down = 0;  ///< of the largest cohort
    std::vector<cohort> cohorts;       ///< in an order that all ranks agree on
    std::vector<std::vector<int>> of_rank;  ///< of_rank[r]: the cohorts that rank r is a member of, ascending
};

/// Who meets whom over which part of the vector, stage by stage: the stages of a plan rule, laid out for one count. The
/// same for all ranks.
struct composition {
    int ranks = 1;
    std::int64_t count = 0;
    std::vector<composed_stage> stages;
};

/// Composes stages over a machine by ownership and common refinement: after a domain's stage each element has an owner in
/// it; the vector is cut wherever an owner changes in any sibling, and each segment's owners, one per sibling, form a
/// group of the next stage. Shards are cut at multiples of `quantum` elements.
/// @throws plan_error if a stage's algorithm is unknown or does not do its mode, or replicate stands below unequal siblings
composition compose(const hierarchy& machine, std::span<const stage> stages, std::int64_t count, std::int64_t quantum);

/// The program of one rank.
schedule generate(const composition& c, collective what, int rank);

/// Programs of all ranks.
std::vector<schedule> generate_all(const composition& c, collective what);

}  // namespace terrace
