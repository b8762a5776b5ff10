#include "pmpi/settings.hpp"

#include <cctype>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/units.hpp"

namespace terrace::detail::pmpi {

namespace {

constexpr std::string_view mode_names[] = {"auto", "on", "off"};
constexpr const char* allowed = "auto, on or off, each for some sizes: off:-64K,auto";

std::optional<mode> parse_mode(std::string_view text) {
    for (std::size_t m = 0; m < std::size(mode_names); ++m)
        if (text == mode_names[m]) return static_cast<mode>(m);
    return {};
}

// "4K-64K"; either end may be left out.
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

std::string value_of(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? value : "";
}

std::vector<sized_mode> modes_of(const std::string& name) {
    const std::string value = value_of(name);
    if (value.empty()) return {};
    if (auto modes = parse_modes(value)) return *std::move(modes);
    throw usage_error(fmt::format("{} is \"{}\"; allowed: {}", name, value, allowed));
}

settings read() {
    settings s;
    const std::vector<sized_mode> all = modes_of("TERRACE_PMPI");
    for (std::size_t k = 0; k < call_kinds; ++k) {
        std::string name = "TERRACE_PMPI_";
        for (const char letter : call_names[k])
            name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
        s.modes[k] = modes_of(name);
        s.modes[k].insert(s.modes[k].end(), all.begin(), all.end());
    }
    s.report_file = value_of("TERRACE_PMPI_REPORT");
    s.of_communicators = options::from_environment();
    return s;
}

settings read_or_switch_off() {
    try {
        return read();
    } catch (const std::exception& e) {
        settings none;
        for (auto& modes : none.modes) modes = {{.is = mode::off}};
        int rank = 0;
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0) std::fprintf(stderr, "terrace: warn: the drop-in is off: %s\n", e.what());
        return none;
    }
}

}  // namespace

std::string_view to_string(mode m) noexcept { return mode_names[static_cast<std::size_t>(m)]; }

std::optional<std::vector<sized_mode>> parse_modes(std::string_view text) {
    std::vector<sized_mode> all;
    while (true) {
        const std::string_view item = text.substr(0, text.find(','));
        const std::size_t colon = item.find(':');
        const std::optional<mode> is = parse_mode(item.substr(0, colon));
        sized_mode one;
        if (!is || (colon != item.npos && !set_sizes(one, item.substr(colon + 1)))) return {};
        one.is = *is;
        all.push_back(one);
        if (item.size() == text.size()) return all;
        text.remove_prefix(item.size() + 1);
    }
}

mode settings::mode_of(call_kind what, std::int64_t bytes) const noexcept {
    for (const sized_mode& m : modes[static_cast<std::size_t>(what)])
        if (bytes >= m.from && bytes <= m.to) return m.is;
    return mode::automatic;
}

const settings& current_settings() {
    static const settings read_once = read_or_switch_off();
    return read_once;
}

}  // namespace terrace::detail::pmpi
