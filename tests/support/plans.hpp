#pragma once

#include <cstdint>
#include <vector>

#include <terrace/communicator.hpp>

#include "plan/recipe.hpp"

namespace terrace::test {

/// A plan that runs the stages for every size.
plan plan_of(const hierarchy& machine, const std::vector<stage>& stages, int lanes = 1, std::int64_t chunk = 0);

/// Runs an allreduce of `count` elements with exact data, in a buffer that is offset by one element from its allocation
/// and guarded at both ends; returns how many elements are wrong on this rank.
template <element T>
std::int64_t wrong_elements(communicator& comm, std::int64_t count, int salt);

extern template std::int64_t wrong_elements<float>(communicator&, std::int64_t, int);
extern template std::int64_t wrong_elements<double>(communicator&, std::int64_t, int);

/// Counts that are hard on P ranks.
std::vector<std::int64_t> awkward_counts(int ranks);

}  // namespace terrace::test
