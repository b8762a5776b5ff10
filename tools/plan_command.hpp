#pragma once

#include <string>

#include "tools/machine.hpp"

namespace terrace {

/// `terrace plan MACHINE [-o FILE]`: makes a plan for a cluster, proves what it can of it, and writes it.
struct plan_command {
    machine_options machine;
    std::string output;  ///< a file; -: standard output; empty: the cluster's name with .plan.yaml, here

    /// @returns the exit code: 1 where the plan is wrong, and not written
    int run() const;
};

}  // namespace terrace
