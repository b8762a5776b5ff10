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

}  // namespace terrace::detail
