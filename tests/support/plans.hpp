#pragma once

#include <cstdint>
#include <vector>

#include <terrace/communicator.hpp>

#include "plan/plan_data.hpp"
#include "support/calls.hpp"

namespace terrace::detail::test {

/// Returns a plan that runs the stages for every size, for all collectives that they can do.
plan plan_of(const hierarchy& machine, const std::vector<stage>& stages, int lanes = 1, std::int64_t chunk = 0);

/// Returns a plan that runs every collective by messages, with a stage for each level.
plan plan_of_all_collectives(const hierarchy& machine);

/// Runs an allreduce of `count` elements in place; returns how many elements are wrong on this rank.
template <element T>
std::int64_t wrong_elements(communicator& comm, std::int64_t count, std::uint64_t salt) {
    return make(comm, {.type = element_type_of<T>, .count = count, .counts = {}, .in_place = true, .offset = 1}, salt)
        .wrong;
}

}  // namespace terrace::detail::test
