#pragma once

#include <cstdint>

#include "planner/search.hpp"

namespace terrace::detail {

/// Lanes and chunk of a rule, and the resulting time of a call.
struct tuning {
    int lanes = 1;
    std::int64_t chunk = 0;  ///< [B]; 0: the whole vector
    double time = 0;         ///< predicted [s]
    double simulated = 0;    ///< [s]; 0: not simulated
};

/// Returns the lanes and chunk with the least predicted time, or nearly so. All candidates have the same choices, so
/// comparisons are of algorithms only.
tuning tune(const hierarchy& machine, const priced_candidate& c, std::int64_t bytes);

/// Returns the rule that runs a candidate with this tuning up to `bytes`. @param limit lower bound for this size [s]
rule rule_of(const candidate& c, const tuning& t, std::int64_t bytes, double limit);

/// Returns true if both rules run a call in the same way.
bool run_alike(const rule& a, const rule& b) noexcept;

}  // namespace terrace::detail
