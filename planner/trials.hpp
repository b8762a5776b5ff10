#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "planner/search.hpp"

namespace terrace {

/// What NCCL and MPI take of devices' buffers is not what links take: simulations know links.
bool takes_links(const hierarchy& machine) noexcept;

/// Calls tried by simulation, for what no closed form sees: stages of different chunks that meet on one link and from
/// then on keep step, and ranks that wait for unequal siblings. Only on machines so small that this takes no time to
/// speak of; that is counted in messages and shares of links, so that plans are the same everywhere.
class trials {
public:
    explicit trials(const hierarchy& machine);

    /// Time of a call [s]; nothing where that would take too long. Of more than a few chunks in flight the first ones
    /// are simulated, and the others take as long as the later of these do.
    std::optional<double> time(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes);

private:
    std::optional<double> run(const priced_candidate& c, int lanes, std::int64_t chunk, std::int64_t bytes);

    const hierarchy& machine_;
    std::int64_t left_;  // simulation::shares, or as much work
    std::map<std::string, std::optional<double>> known_;
};

}  // namespace terrace
