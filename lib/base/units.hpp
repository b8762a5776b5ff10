#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::detail {

/// "10 GB/s", "1 Gbit/s", "1 Gbps", "500 MiB/s": bytes per second. K M G T, in either case, are decimal, and binary
/// with an i behind them. Nothing if it is not a rate, not positive or not finite.
std::optional<double> parse_bandwidth(std::string_view text);
/// "30 us": seconds; ns, us, ms, s. Zero is allowed.
std::optional<double> parse_duration(std::string_view text);
/// "64MiB", "32 KiB", "4096", "10 MB": bytes; B may be left out after a number. Where `binary_letters`, it
/// may be left out after a letter, too, which then is binary, as in nccl-tests.
std::optional<std::int64_t> parse_bytes(std::string_view text, bool binary_letters = false);

/// "1 Gbit/s", "10 GB/s": to 6 digits.
std::string format_bandwidth(double bytes_per_second);
/// "30 us": to 4 digits.
std::string format_duration(double seconds);
/// Exact: binary units where they divide, else plain bytes.
std::string format_bytes(std::int64_t bytes);

}  // namespace terrace::detail
