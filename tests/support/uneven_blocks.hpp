#pragma once

#include <cstdint>
#include <span>

#include <terrace/communicator.hpp>

#include "base/collective.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

/// An alltoallv, gatherv or scatterv of random counts, the same on all ranks for the same salt: some empty, some of the
/// longest.
struct uneven_case {
    std::uint64_t salt = 0;
    std::int64_t most = 0;  ///< elements of the longest block
    bool has_room = true;   ///< else recv of rank 0 lacks one element, where it gets any
    element_type type = element_type::uint8;
    collective what = collective::alltoall;
    int root = 0;
};

uneven_case random_uneven_case(dice& d, int ranks);

/// Makes the call. Returns how many counts and bytes are wrong on this rank, those behind the buffers included.
std::int64_t wrong_in(communicator& comm, const uneven_case& c);

/// Starts all of them at once with an allreduce behind each, and waits in the opposite order. Returns the same.
std::int64_t wrong_in_flight(communicator& comm, std::span<const uneven_case> cases, bool in_a_group);

}  // namespace terrace::detail::test
