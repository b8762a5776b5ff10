#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/variables.hpp"
#include "pmpi/call_kind.hpp"

namespace terrace::detail::pmpi {

/// Returns the variables of the drop-in, by name: TERRACE_PMPI, one for each call that Terrace may run, and
/// TERRACE_PMPI_REPORT. They set no options: `settings` reads them.
std::span<const variable> drop_in_variables() noexcept;

/// Returns the name of the variable for one call.
std::string_view variable_of(call_kind what) noexcept;

/// Returns a line for each unknown TERRACE_PMPI* in a list of "NAME=value".
/// @throws input_error if a value is not allowed
std::vector<std::string> check_drop_in_variables(std::span<const std::string> environment);

}  // namespace terrace::detail::pmpi
