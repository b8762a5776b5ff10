#include "base/units.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text_parts.hpp"

namespace terrace::detail {

namespace {

struct number_and_unit {
    double number;
    std::string_view unit;
};

std::optional<number_and_unit> split(std::string_view text) {
    std::string_view unit;
    const auto number = leading_number<double>(text, &unit);
    if (!number || !std::isfinite(*number) || *number < 0) return {};
    while (unit.starts_with(' ')) unit.remove_prefix(1);
    return number_and_unit{*number, unit};
}

// Removes the prefix from `unit` and returns its factor: K, M, G or T in either case, binary if an i follows.
double take_prefix(std::string_view& unit, bool binary = false) {
    constexpr std::string_view upper = "KMGT", lower = "kmgt";
    const std::size_t power = unit.empty() ? upper.npos : std::min(upper.find(unit[0]), lower.find(unit[0]));
    if (power == upper.npos) return 1;
    unit.remove_prefix(1);
    if (unit.starts_with('i')) {
        unit.remove_prefix(1);
        binary = true;
    }
    double factor = 1;
    for (std::size_t i = 0; i <= power; ++i) factor *= binary ? 1024 : 1000;
    return factor;
}

}  // namespace

std::optional<double> parse_bandwidth(std::string_view text) {
    auto parsed = split(text);
    if (!parsed || parsed->number <= 0) return {};
    const double factor = take_prefix(parsed->unit);
    const double rate = parsed->number * factor;
    if (!std::isfinite(rate)) return {};
    if (parsed->unit == "B/s" || parsed->unit == "Bps") return rate;
    if (parsed->unit == "bit/s" || parsed->unit == "bps") return rate / 8;
    return {};
}

std::optional<double> parse_duration(std::string_view text) {
    const auto parsed = split(text);
    if (!parsed) return {};
    for (const auto& [unit, in_a_second] : {std::pair{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}, {"s", 1.0}})
        if (parsed->unit == unit) return parsed->number / in_a_second;
    return {};
}

std::optional<std::int64_t> parse_bytes(std::string_view text, bool binary_letters) {
    auto parsed = split(text);
    if (!parsed) return {};
    const double factor = take_prefix(parsed->unit, binary_letters && parsed->unit.size() == 1);
    if (parsed->unit != "B" && !(parsed->unit.empty() && (factor == 1 || binary_letters))) return {};
    const double bytes = parsed->number * factor;
    if (bytes > 9e18 || bytes != std::floor(bytes)) return {};
    return static_cast<std::int64_t>(bytes);
}

std::string format_bandwidth(double exact) {
    const double rate = split(fmt::format("{:.5e}", exact))->number;  // the rounded rate decides on the unit
    const auto text = [&](double unit) { return fmt::format("{:.6g}", rate / unit); };
    std::string bytes = text(1) + " B/s", bits;
    std::size_t digits = text(1).size();
    for (const auto& [unit, name] : {std::pair{1e12, " TB/s"}, {1e9, " GB/s"}, {1e6, " MB/s"}, {1e3, " kB/s"}}) {
        if (rate < unit) continue;
        bytes = text(unit) + name;
        digits = text(unit).size();
        break;
    }
    // Networks are rated in bits: rates up to 100 Gbit/s are given in bits if the number is then shorter.
    for (const auto& [unit, name] : {std::pair{1.25e8, " Gbit/s"}, {1.25e5, " Mbit/s"}}) {
        if (rate < unit || rate > 12.5e9) continue;
        if (text(unit).size() < digits) bits = text(unit) + name;
        break;
    }
    return bits.empty() ? bytes : bits;
}

std::string format_duration(double seconds) {
    if (seconds == 0) return "0 s";
    if (seconds < 0) return "-" + format_duration(-seconds);
    if (seconds < 0.9995e-6) return fmt::format("{:.4g} ns", seconds * 1e9);
    if (seconds < 0.9995e-3) return fmt::format("{:.4g} us", seconds * 1e6);
    if (seconds < 0.9995) return fmt::format("{:.4g} ms", seconds * 1e3);
    return fmt::format("{:.4g} s", seconds);
}

std::string format_bytes(std::int64_t bytes) {
    for (const auto& [shift, unit] : {std::pair{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}}) {
        const std::int64_t factor = std::int64_t{1} << shift;
        if (bytes >= factor && bytes % factor == 0) return fmt::format("{} {}", bytes / factor, unit);
    }
    return fmt::format("{} B", bytes);
}

}  // namespace terrace::detail
