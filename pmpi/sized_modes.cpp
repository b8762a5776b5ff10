#include "pmpi/sized_modes.hpp"

#include <array>
#include <cstddef>

#include "base/find_name.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 3> mode_names = {"auto", "on", "off"};

// Parses "4K-64K"; either end may be missing. Returns false for invalid text.
bool set_sizes(sized_mode& of, std::string_view text) {
    const std::size_t dash = text.find('-');
    if (dash == text.npos) return false;
    const std::string_view low = text.substr(0, dash), high = text.substr(dash + 1);
    const std::optional<std::int64_t> from = low.empty() ? of.from : parse_bytes(low, true);
    const std::optional<std::int64_t> to = high.empty() ? of.to : parse_bytes(high, true);
    if (!from || !to || *from > *to) return false;
    of.from = *from;
    of.to = *to;
    return true;
}

}  // namespace

std::string_view to_string(drop_in_mode m) noexcept { return mode_names[static_cast<std::size_t>(m)]; }

std::optional<std::vector<sized_mode>> parse_modes(std::string_view text) {
    std::vector<sized_mode> all;
    for (const std::string_view item : split_at(',', text)) {
        const std::size_t colon = item.find(':');
        const auto is = find_name<drop_in_mode>(mode_names, item.substr(0, colon));
        sized_mode one;
        if (!is || (colon != item.npos && !set_sizes(one, item.substr(colon + 1)))) return {};
        one.is = *is;
        all.push_back(one);
    }
    return all;
}

drop_in_mode mode_of(std::span<const sized_mode> modes, std::int64_t bytes) noexcept {
    for (const sized_mode& m : modes)
        if (bytes >= m.from && bytes <= m.to) return m.is;
    return drop_in_mode::automatic;
}

}  // namespace terrace::detail
