#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// A rank of a job that runs on this host, according to its environment.
struct running_rank {
    std::string job;
    int rank = 0;        ///< in the job
    int local_rank = 0;  ///< on this host
    std::string nic;     ///< interface or device for its messages; empty: any
};

/// Returns the ranks on this host of jobs of this size, if this user may read their environment: ranks of Open MPI, and
/// ranks of Slurm or torchrun with a set NIC. Sorted by job and rank.
std::vector<running_rank> running_ranks(int size_of_job, const std::filesystem::path& processes = "/proc");

/// Returns the ranks that do not use the NICs of the plan, as "ranks 0 and 2 both use eth0, ...". Empty if all ranks
/// use theirs.
std::optional<std::string> nic_conflict(const hierarchy& machine, const std::vector<running_rank>& ranks);

}  // namespace terrace::detail
