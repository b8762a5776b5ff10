#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/options.hpp>

#include "pmpi/call.hpp"

namespace terrace::detail::pmpi {

/// Who runs calls: whichever is faster, Terrace wherever it can, MPI.
enum class mode : std::uint8_t { automatic, on, off };

std::string_view to_string(mode m) noexcept;

/// A mode for calls of some sizes.
struct sized_mode {
    mode is = mode::automatic;
    std::int64_t from = 0, to = INT64_MAX;  ///< bytes, both included
};

/// Parses "on", "off:-64K,auto", "on:1M-,off:4K-64K": the first mode whose sizes fit counts. Nothing if it is not one.
std::optional<std::vector<sized_mode>> parse_modes(std::string_view text);

/// What TERRACE_PMPI* and the other TERRACE_* variables say.
struct settings {
    std::array<std::vector<sized_mode>, call_kinds> modes{};  ///< by call, those of TERRACE_PMPI last
    std::string report_file;                                  ///< empty: none
    options of_communicators{};

    /// @param bytes 0 where ranks need not agree on it
    mode mode_of(call_kind what, std::int64_t bytes) const noexcept;
    bool times() const noexcept { return !report_file.empty(); }
};

/// Reads the environment when it is called first. Where that says something invalid, writes a line to standard error on
/// one rank, and switches everything off.
const settings& current_settings();

}  // namespace terrace::detail::pmpi
