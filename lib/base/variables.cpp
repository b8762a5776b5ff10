#include "base/variables.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/edit_distance.hpp"

namespace terrace::detail {

std::vector<std::string> process_environment() {
    std::vector<std::string> entries;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
    return entries;
}

std::string_view value_in(std::span<const std::string> environment, std::string_view name) noexcept {
    const std::size_t end = name.size();
    for (const std::string_view entry : environment)
        if (entry.size() > end + 1 && entry[end] == '=' && entry.starts_with(name)) return entry.substr(end + 1);
    return {};
}

void apply_variables(std::span<const variable> all, std::span<const std::string> environment, options& o) {
    for (const variable& v : all) {
        const std::string_view own = value_in(environment, v.name), value = own.empty() ? v.fallback : own;
        if (!value.empty() && !v.apply(o, value))
            throw input_error("environment", 0, 0, fmt::format("{} is \"{}\"; allowed: {}", v.name, value, v.allowed));
    }
}

std::vector<std::string> unknown_variables(std::span<const std::string> environment, std::string_view beginning,
                                           std::span<const variable> known, std::string_view but) {
    std::vector<std::string_view> ends;
    for (const variable& v : known) ends.push_back(v.name.substr(beginning.size()));
    std::vector<std::string> lines;
    for (const std::string& entry : environment) {
        const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
        const bool is_meant = name.starts_with(beginning) && (but.empty() || !name.starts_with(but));
        if (!is_meant || std::ranges::find(known, name, &variable::name) != known.end()) continue;
        const std::string_view nearest = nearest_name(name.substr(beginning.size()), ends);
        const std::string advice = nearest.empty() ? "`terrace info` lists the variables"
                                                   : fmt::format("did you mean {}{}?", beginning, nearest);
        lines.push_back(fmt::format("{} is unknown to Terrace and has no effect; {}", name, advice));
    }
    return lines;
}

}  // namespace terrace::detail
