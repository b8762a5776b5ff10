#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/search.hpp"
#include "planner/simulate/simulate.hpp"

namespace terrace::detail {

/// Returns true if data moves at the rates of links, which is all that simulations know: false where the cluster file
/// has rates of NCCL or MPI for buffers of devices.
bool moves_by_links(const hierarchy& machine) noexcept;

/// Simulated calls of one collective's candidates. Simulations see what no closed form does: stages of different chunks
/// that meet on one link and from then on keep step, and ranks that wait for unequal siblings. Only small machines are
/// simulated, in which that costs next to nothing (planner_policy::most_messages, simulated_shares).
class trials {
public:
    /// @param what of all candidates   @param reproducible the calls' reductions are those of options::reproducible
    trials(const hierarchy& machine, collective what, bool reproducible = false);

    /// Returns the time of a call [s], or nothing where a simulation would be too long. Of many chunks the first
    /// ones are simulated (planner_policy::simulated_rounds), and each of the others costs as much as one of the later
    /// of these.
    std::optional<double> time(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes);

    /// Returns what is left of the budget (planner_policy::simulated_shares).
    std::int64_t left() const noexcept { return left_; }

private:
    int lanes_used(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes) const;
    // Times of calls of these sizes, the largest first; none where that one would be too long.
    std::vector<double> run(const priced_candidate& c, int lanes, std::int64_t chunk,
                            std::span<const std::int64_t> sizes);

    const hierarchy& machine_;
    bool reproducible_;
    std::int64_t left_;                                 // of planner_policy::simulated_shares
    std::map<std::string, std::vector<double>> known_;  // times by candidate, lanes, chunk and largest size
    known_programs programs_;
};

}  // namespace terrace::detail
