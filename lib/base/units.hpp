#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::detail {

/// Parses "10 GB/s", "1 Gbit/s", "1 Gbps", "500 MiB/s" into bytes per second. K M G T, in either case, are decimal, and
/// binary if an i follows. Returns nothing if the text is no rate, or the rate not positive or not finite.
std::optional<double> parse_bandwidth(std::string_view text);
/// Parses "30 us" into seconds; units are ns, us, ms and s. Zero is allowed.
std::optional<double> parse_duration(std::string_view text);
/// Parses "64MiB", "32 KiB", "4096", "10 MB" into bytes. B may be omitted after a number. If `binary_letters`, B may
/// also be omitted after a letter, which is then binary, as in nccl-tests.
std::optional<std::int64_t> parse_bytes(std::string_view text, bool binary_letters = false);

/// Returns for example "1 Gbit/s" or "10 GB/s", with up to 6 digits.
std::string format_bandwidth(double bytes_per_second);
/// Returns for example "30 us", with up to 4 digits.
std::string format_duration(double seconds);
/// Returns the exact number: in the largest binary unit that divides it, else in bytes.
std::string format_bytes(std::int64_t bytes);

}  // namespace terrace::detail
