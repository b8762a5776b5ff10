#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>

#include "base/variables.hpp"

namespace terrace::detail {

/// Returns the variables that say what options are. Those of the drop-in are in pmpi/variables.hpp.
std::span<const variable> environment_variables() noexcept;

/// Returns the options that an environment says: a list of "NAME=value".
/// @param warnings receives a line for each unknown TERRACE_* variable, with the nearest known name
/// @throws input_error naming the variable, its value, and what is allowed
options options_from(std::span<const std::string> environment, std::vector<std::string>& warnings);

/// Returns the value of TERRACE_CHECK for a level.
std::string_view to_string(options::checking level) noexcept;

/// Returns the plan in `o.plan_file`. @throws usage_error if that is empty, input_error
plan load_plan(const options& o);

/// Returns false if the launcher's variables (of Open MPI, PMIx, PMI, Slurm, torchrun) say that this process is another
/// rank than 0 of its job.
bool is_first_rank(std::span<const std::string> environment) noexcept;

/// What the launcher's variables (of Open MPI, PMI, Slurm's steps) say of the job and of this process.
struct launch {
    int processes = 0;  ///< 0: no launcher says it
    int rank = 0;
};
launch launch_of(std::span<const std::string> environment) noexcept;

/// Returns options::topology_address as Slurm tells it; empty where it does not.
std::string slurm_address_in(std::span<const std::string> environment);

}  // namespace terrace::detail
