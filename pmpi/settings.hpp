#pragma once

#include <array>
#include <string>
#include <vector>

#include <terrace/options.hpp>

#include "pmpi/call.hpp"
#include "pmpi/sized_modes.hpp"

namespace terrace::detail::pmpi {

using mode = drop_in_mode;

/// Settings by TERRACE_PMPI* and the other TERRACE_* variables.
struct settings {
    std::array<std::vector<sized_mode>, call_kinds> modes{};  ///< by call, those of TERRACE_PMPI last
    std::string report_file;                                  ///< empty: none
    options of_communicators{};

    bool times() const noexcept { return !report_file.empty(); }
};

/// Returns the value of TERRACE_PMPI_REPORT, also before main().
std::string named_report_file();

/// Reads the environment when first called. If a value is invalid, writes a line to standard error on one rank, and
/// switches the drop-in off.
const settings& current_settings();

}  // namespace terrace::detail::pmpi
