#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace terrace::detail {

/// Choice between MPI and Terrace under the drop-in: the faster one, Terrace if it can run the call, or MPI.
enum class drop_in_mode : std::uint8_t { automatic, on, off };

/// Returns "auto", "on" or "off".
std::string_view to_string(drop_in_mode m) noexcept;

/// A mode for calls of some sizes.
struct sized_mode {
    drop_in_mode is = drop_in_mode::automatic;
    std::int64_t from = 0, to = INT64_MAX;  ///< bytes, both included
};

/// Parses "on", "off:-64K,auto", "on:1M-,off:4K-64K": the first mode whose sizes fit counts. Nothing for invalid text.
std::optional<std::vector<sized_mode>> parse_modes(std::string_view text);

/// Returns the first mode whose sizes fit; `automatic` if none does. @param bytes 0 if a call has no size
drop_in_mode mode_of(std::span<const sized_mode> modes, std::int64_t bytes) noexcept;

}  // namespace terrace::detail
