#pragma once

#include <cstdint>

#include "pmpi/attached.hpp"
#include "pmpi/call.hpp"

namespace terrace::detail::pmpi {

/// What of a call must be equal on all ranks, and whether MPI refuses it.
struct call_facts {
    std::int64_t bytes = 0;  ///< of the message: all blocks together; 0 where ranks need not agree on it
    bool invalid = false;    ///< MPI reports an error on this rank: negative counts, null handles, a root that is none
};
call_facts facts_of(const call& c, const attached& on) noexcept;

struct decision {
    runner by = runner::mpi;
    passed why = passed::not_at_all;  ///< why MPI runs it; not_at_all: Terrace runs it, or it is a call of a trial
    bool is_trial = false;
};

/// Decides who runs a call, by what MPI requires to be equal on all ranks and by what ranks have agreed on: never by
/// datatypes of data that only moves, by addresses, or by displacements.
/// @param tried the trial of the blocking call of this size   @param starts true for a call that does not block
decision decide(const call& c, const call_facts& f, const attached& on, const trial& tried, bool starts) noexcept;

}  // namespace terrace::detail::pmpi
