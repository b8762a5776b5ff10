#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>

#include "base/variables.hpp"

namespace terrace::detail {

/// Returns the variables that set options. pmpi/variables.hpp has those of the drop-in.
std::span<const variable> environment_variables() noexcept;

/// Returns the options that an environment sets. @param environment a list of "NAME=value"
/// @param warnings receives a line for each unknown TERRACE_* variable, with the nearest known name
/// @throws input_error naming the variable, its value, and the allowed values
options options_from(std::span<const std::string> environment, std::vector<std::string>& warnings);

/// Returns the value of TERRACE_CHECK for a level.
std::string_view to_string(options::checking level) noexcept;

/// Returns the plan in `o.plan_file`. @throws usage_error if no file is set; input_error
plan load_plan(const options& o);

/// Returns false if TERRACE_RANK or the launcher's variables (of Open MPI, PMIx, PMI, Slurm, torchrun) give this
/// process a rank other than 0 in its job.
bool is_first_rank(std::span<const std::string> environment) noexcept;

/// The job and the place of this process, by the launcher's variables (of Open MPI, PMI, Slurm's steps).
struct launch {
    int processes = 0;  ///< 0: unknown
    int rank = 0;
};
launch launch_of(std::span<const std::string> environment) noexcept;

/// Returns options::topology_address from Slurm's variables; empty if they are not set.
std::string slurm_address_in(std::span<const std::string> environment);

}  // namespace terrace::detail
