#pragma once

#include <string>
#include <vector>

#include "transport/team.hpp"

namespace terrace::detail {

/// The numbers of a communicator's ranks: in its plan, for its callers, and in the whole job.
struct rank_numbers {
    int own = 0;                       ///< the callers' number of this process
    std::vector<int> callers{};        ///< the callers' numbers, by rank of the plan
    std::vector<int> world{};          ///< the numbers in the whole job, by the callers' numbers
    std::string communicator{};        ///< name of the communicator, unique among all that write files to a directory
    std::vector<int> world_by_plan{};  ///< the numbers in the whole job, by rank of the plan

    /// Exchanges the numbers of all ranks. Collective. @param all ranks in the plan's order
    void gather(team& all);
};

}  // namespace terrace::detail
