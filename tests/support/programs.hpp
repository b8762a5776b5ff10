#pragma once

#include <string>
#include <vector>

#include "schedule/collective_call.hpp"
#include "schedule/verify.hpp"
#include "support/dice.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

/// The schedules of all ranks, and what the verifier has to be told of the call.
struct program_of_all {
    std::string name;
    std::vector<schedule> schedules;
    expectation of;
};

/// A call of vectors of `count` elements, from or to `root` where the collective has one.
/// @param quantum 1, or any other divisor of a cache line's bytes
program_of_all vector_program(const hierarchy& machine, const std::vector<stage>& stages, collective what,
                              std::int64_t count, std::int64_t quantum = 1, int root = 0);
/// A call of the given blocks of the caller's buffer of all.
program_of_all block_program(const hierarchy& machine, const std::vector<stage>& stages, collective what,
                             const std::vector<range>& blocks, int root = 0);

/// A call on a transport that runs all stages of providers by itself, lowered. @param homes of the vector, by rank
program_of_all staged_program(const hierarchy& machine, const std::vector<stage>& stages, const collective_call& call,
                              const std::vector<buffer>& homes);

/// Counts that are hard on P ranks, and blocks that are.
std::vector<std::int64_t> hard_counts(int ranks);
std::vector<std::vector<range>> hard_blocks(int ranks, collective what);

/// Any collective over one of the machines, with hard counts, lowered.
program_of_all random_program(const std::vector<hierarchy>& machines, dice& d);

}  // namespace terrace::detail::test
