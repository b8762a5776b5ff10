#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// A rank of a job that runs on this host, by its environment.
struct running_rank {
    std::string job;
    int rank = 0;        ///< in the job
    int local_rank = 0;  ///< on this host
    std::string nic;     ///< the interface or device that its messages leave through; empty: any
};

/// Ranks on this host of jobs of that size, as far as this user may see their environment: those of Open MPI, and those
/// by Slurm or torchrun that name their NIC. By job and rank.
std::vector<running_rank> running_ranks(int size_of_job, const std::filesystem::path& processes = "/proc");

/// Ranks that do not use the NICs that the plan gives them, as "ranks 0 and 2 both use eth0, ...". Empty if all is
/// well.
std::optional<std::string> nic_conflict(const hierarchy& machine, const std::vector<running_rank>& ranks);

}  // namespace terrace::detail
