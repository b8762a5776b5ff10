#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>

namespace terrace::detail {

/// An environment variable. The same rows serve parsing, `terrace info` and the documentation.
struct variable {
    std::string_view name;
    std::string_view fallback;  ///< the value used if the variable is not set; empty: none
    std::string_view allowed;   ///< the allowed values, in words
    std::string_view meaning;
    /// Puts the value into the options. Returns false if the value is not allowed.
    bool (*apply)(options& o, std::string_view value);
};

/// Returns the environment of this process as "NAME=value".
std::vector<std::string> process_environment();
/// Returns the value of a variable in a list of "NAME=value"; empty if it is not set. Empty values count as not set.
std::string_view value_in(std::span<const std::string> environment, std::string_view name) noexcept;

/// Puts the values of variables, or their fallbacks, into options.
/// @throws input_error naming the variable, its value, and what is allowed
void apply_variables(std::span<const variable> all, std::span<const std::string> environment, options& o);

/// Returns a line for each unknown variable that starts with `beginning`, with the nearest known name.
/// @param known variables that start with `beginning`   @param but ignores names that start with this; empty: none
std::vector<std::string> unknown_variables(std::span<const std::string> environment, std::string_view beginning,
                                           std::span<const variable> known, std::string_view but = {});

}  // namespace terrace::detail
