#pragma once

#include <cstdint>
#include <vector>

#include <terrace/communicator.hpp>

#include "plan/recipe.hpp"

namespace terrace::test {

/// A plan that runs the stages for every size, for all collectives that they can do.
plan plan_of(const hierarchy& machine, const std::vector<stage>& stages, int lanes = 1, std::int64_t chunk = 0);

/// Runs an allreduce of `count` elements with exact data, in a buffer that is offset by one element from its allocation
/// and guarded at both ends; returns how many elements are wrong on this rank.
template <element T>
std::int64_t wrong_elements(communicator& comm, std::int64_t count, int salt);

/// Runs every collective that the plan has rules for, in place and out of place, with blocks (or vectors) of `count`
/// elements, with counts per rank, and from and to the roots 0 and P - 1; returns how many elements are wrong on this
/// rank.
template <element T>
std::int64_t wrong_elements_of_all(communicator& comm, const plan& p, std::int64_t count, int salt);

extern template std::int64_t wrong_elements<float>(communicator&, std::int64_t, int);
extern template std::int64_t wrong_elements<double>(communicator&, std::int64_t, int);
extern template std::int64_t wrong_elements_of_all<float>(communicator&, const plan&, std::int64_t, int);
extern template std::int64_t wrong_elements_of_all<std::int64_t>(communicator&, const plan&, std::int64_t, int);

/// Counts that are hard on P ranks.
std::vector<std::int64_t> awkward_counts(int ranks);

}  // namespace terrace::test
