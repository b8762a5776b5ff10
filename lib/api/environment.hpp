#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>

namespace terrace::detail {

/// A variable of the environment. The same rows serve parsing, `terrace info` and the documentation.
struct variable {
    std::string_view name;
    std::string_view fallback;  ///< the value used if the variable is not set; empty: none
    std::string_view allowed;   ///< the allowed values, in words
    std::string_view meaning;
    /// Puts the value into the options. Returns false if the value is not allowed.
    bool (*apply)(options& o, std::string_view value);
};

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

/// Returns the environment of this process as "NAME=value".
std::vector<std::string> process_environment();
/// Returns the value of a variable in a list of "NAME=value"; empty if it is not set: so a script can switch one off.
std::string_view value_in(std::span<const std::string> environment, std::string_view name) noexcept;

}  // namespace terrace::detail
