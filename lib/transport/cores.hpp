#pragma once

#include <sched.h>

#include <array>
#include <vector>

#include "transport/team.hpp"

namespace terrace::detail {

/// The ranks of a team on one machine, in however many containers, and the cores that they may run on together.
struct machine_use {
    int ranks = 0, cores = 0;

    bool oversubscribed() const noexcept { return ranks > cores; }
};

/// A machine, whatever its containers call themselves, and the cores that a rank may run on there.
struct cpu_set {
    std::array<char, 36> boot{};  ///< the kernel's own name for this run of itself
    cpu_set_t cores;
};
cpu_set own_cpu_set();

/// Describes this rank's machine. Collective. @throws transport_error
machine_use use_of_machine(team& ranks);

/// Returns the number of cores that all ranks share if they are on one machine and outnumber its cores; else 0.
/// Collective. @throws transport_error
int shared_cores(team& ranks);
/// The same from what all ranks say of themselves.
int shared_cores(const cpu_set& own, std::vector<cpu_set> all);

}  // namespace terrace::detail
