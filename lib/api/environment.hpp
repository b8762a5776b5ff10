#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>

namespace terrace {

/// A variable of the environment: all that parsing, `terrace info` and the documentation know of it.
struct variable {
    std::string_view name;
    std::string_view fallback;  ///< what holds where it is not set; empty: nothing
    std::string_view allowed;   ///< values, in words
    std::string_view meaning;
    /// Puts the value into the options; false if it is none that is allowed.
    bool (*apply)(options& o, std::string_view value);
};

std::span<const variable> environment_variables() noexcept;

/// Options by a list of "NAME=value", which is what an environment is.
/// @param warnings gets one for each TERRACE_* that is no variable, with the nearest name that is one
/// @throws input_error naming the variable, its value, and what is allowed
options options_from(std::span<const std::string> environment, std::vector<std::string>& warnings);

/// As TERRACE_CHECK spells it.
std::string_view to_string(options::checking level) noexcept;

/// The plan in `o.plan_file`. @throws usage_error if that is empty, input_error
plan load_plan(const options& o);

/// What the environment of this process says of TERRACE_*.
std::vector<std::string> process_environment();
/// The value of a variable in a list of "NAME=value"; null if it is not set or empty.
const char* value_in(std::span<const std::string> environment, std::string_view name) noexcept;

}  // namespace terrace
