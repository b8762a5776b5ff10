#pragma once

#include <string_view>
#include <vector>

#include <terrace/mpi.hpp>

#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

/// Returns options by which a plan's nodes need not be those of this machine.
inline options anywhere() {
    options o;
    o.place = options::placement::anywhere;
    return o;
}

/// Returns a plan of one stage over all levels.
inline plan flat(const hierarchy& machine, std::string_view by = "ring") {
    std::vector<int> all;
    for (int l = 0; l < machine.depth(); ++l) all.push_back(l);
    return plan_of(machine, {run_by({all, machine.ranks(), mode::scatter}, by)});
}

}  // namespace terrace::detail::test
