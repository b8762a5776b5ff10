#pragma once

#include <string>

#include "tools/common/machine.hpp"

namespace terrace::detail {

/// `terrace plan MACHINE [-o FILE] [--profile DIRECTORY] [--sensitivity] [--force]`: makes a plan for a cluster, proves
/// what it can of it, and writes it.
struct plan_command {
    machine_options machine;
    std::string wire;              ///< "LEVEL=TYPE,...": wire types of levels, in place of those in the cluster file
    std::filesystem::path output;  ///< a file; -: standard output; empty: the cluster's name with .plan.yaml, here
    std::string profile;        ///< a directory of profiles, by which the machine's figures are corrected; empty: none
    bool sensitivity = false;   ///< prints what other values of assumed figures would change
    bool reproducible = false;  ///< reductions have the rules that suit options::reproducible
    int candidate = 0;          ///< a plan of the candidates in this place by price, 1 for the cheapest; 0: the plan
    bool force = false;         ///< replaces a file that Terrace did not write

    /// @returns the exit code: 1 where the plan is wrong, and not written
    int run() const;
};

}  // namespace terrace::detail
