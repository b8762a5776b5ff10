#pragma once

#include <string>
#include <vector>

#include "schedule/collective_call.hpp"
#include "schedule/verify.hpp"
#include "support/dice.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

/// The schedules of all ranks, and the verifier's description of the call.
struct program_of_all {
    std::string name;
    std::vector<schedule> schedules;
    expectation of;
};

/// Returns a call of vectors of `count` elements, from or to `root` if the collective has one.
/// @param quantum 1, or any other divisor of a cache line's bytes
program_of_all vector_program(const hierarchy& machine, const std::vector<stage>& stages, collective what,
                              std::int64_t count, std::int64_t quantum = 1, int root = 0);
/// Returns a call with these blocks in the caller's buffer of all blocks.
program_of_all block_program(const hierarchy& machine, const std::vector<stage>& stages, collective what,
                             const std::vector<range>& blocks, int root = 0);

/// Returns a lowered call on a transport that runs all providers' stages. @param homes the vector's home, by rank
program_of_all staged_program(const hierarchy& machine, const std::vector<stage>& stages, const collective_call& call,
                              const std::vector<buffer>& homes);

/// These return difficult counts and blocks for `ranks` ranks.
std::vector<std::int64_t> hard_counts(int ranks);
std::vector<std::vector<range>> hard_blocks(int ranks, collective what);

/// Returns a random collective on one of the machines, with hard counts, lowered.
program_of_all random_program(const std::vector<hierarchy>& machines, dice& d);

}  // namespace terrace::detail::test
