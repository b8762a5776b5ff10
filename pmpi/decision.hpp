#pragma once

#include <cstdint>

#include "pmpi/attached.hpp"
#include "pmpi/call.hpp"

namespace terrace::detail::pmpi {

/// Properties of a call that must be equal on all ranks, and whether MPI rejects the call.
struct call_facts {
    std::int64_t bytes = 0;  ///< all blocks together; 0 if ranks need not agree on the number
    bool invalid = false;    ///< MPI reports an error on this rank: negative counts, null handles, an invalid root
};
call_facts facts_of(const call& c, const attached& on) noexcept;

struct decision {
    runner by = runner::mpi;
    passed why = passed::not_at_all;  ///< reason to pass the call to MPI; not_at_all: Terrace runs the call, or a trial
    bool is_trial = false;
};

/// Decides whether MPI or Terrace runs a call, by values that MPI requires to be equal on all ranks, or that ranks have
/// agreed on. Ignores addresses, displacements, and datatypes of data that is only moved.
/// @param tried the trial of the blocking call of this size   @param starts true for a started call
decision decide(const call& c, const call_facts& f, const attached& on, const trial& tried, bool starts) noexcept;

}  // namespace terrace::detail::pmpi
