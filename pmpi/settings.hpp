#pragma once

#include <array>
#include <string>
#include <vector>

#include <terrace/options.hpp>

#include "pmpi/call.hpp"
#include "pmpi/sized_modes.hpp"

namespace terrace::detail::pmpi {

using mode = drop_in_mode;

/// What TERRACE_PMPI* and the other TERRACE_* variables say.
struct settings {
    std::array<std::vector<sized_mode>, call_kinds> modes{};  ///< by call, those of TERRACE_PMPI last
    std::string report_file;                                  ///< empty: none
    options of_communicators{};

    bool times() const noexcept { return !report_file.empty(); }
};

/// Returns the value of TERRACE_PMPI_REPORT, also before main().
std::string named_report_file();

/// Reads the environment when it is called first. Where that says something invalid, writes a line to standard error on
/// one rank, and switches everything off.
const settings& current_settings();

}  // namespace terrace::detail::pmpi
