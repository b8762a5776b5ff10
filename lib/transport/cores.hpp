#pragma once

#include "transport/team.hpp"

namespace terrace::detail {

/// The ranks of a team on one machine, in however many containers, and the cores that they may run on together.
struct machine_use {
    int ranks = 0, cores = 0;

    bool oversubscribed() const noexcept { return ranks > cores; }
};

/// Describes this rank's machine. Collective. @throws transport_error
machine_use use_of_machine(team& ranks);

/// Returns the number of cores that all ranks share if they are on one machine and outnumber its cores; else 0.
/// Collective. @throws transport_error
int shared_cores(team& ranks);

}  // namespace terrace::detail
