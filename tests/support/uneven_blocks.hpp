#pragma once

#include <cstdint>
#include <span>

#include <terrace/communicator.hpp>

#include "base/collective.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

/// An alltoallv, gatherv or scatterv of random counts, which follow from the salt on all ranks. Some blocks are empty,
/// some have the largest length.
struct uneven_case {
    std::uint64_t salt = 0;
    std::int64_t most = 0;  ///< elements of the longest block
    bool has_room = true;   ///< else rank 0's recv is one element too short, if rank 0 gets any
    element_type type = element_type::uint8;
    collective what = collective::alltoall;
    int root = 0;
};

uneven_case random_uneven_case(dice& d, int ranks);

/// Makes the call. Returns the number of wrong counts and bytes on this rank, including bytes behind the buffers.
std::int64_t wrong_in(communicator& comm, const uneven_case& c);

/// Starts all cases, with an allreduce after each, and waits in reverse order. Returns the number of errors.
std::int64_t wrong_in_flight(communicator& comm, std::span<const uneven_case> cases, bool in_a_group);

}  // namespace terrace::detail::test
