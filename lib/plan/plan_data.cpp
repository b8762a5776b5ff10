#include "plan/plan_data.hpp"

#include <array>

#include <fmt/format.h>

#include "base/find_name.hpp"
#include "plan/level_names.hpp"

namespace terrace::detail {

namespace {

constexpr std::array<std::string_view, 3> mode_names{"scatter", "root", "replicate"};
constexpr std::array<std::string_view, 4> provider_names_in_order{"messages", "shared_memory", "nccl", "mpi"};

}  // namespace

std::string_view to_string(mode m) noexcept { return mode_names[static_cast<std::size_t>(m)]; }
std::optional<mode> parse_mode(std::string_view text) noexcept { return find_name<mode>(mode_names, text); }
std::string_view to_string(provider p) noexcept { return provider_names_in_order[static_cast<std::size_t>(p)]; }
std::optional<provider> parse_provider(std::string_view text) noexcept {
    return find_name<provider>(provider_names_in_order, text);
}
std::string provider_names() { return fmt::format("{}", fmt::join(provider_names_in_order, ", ")); }

double rounding_error(std::span<const stage> stages) noexcept {
    double grown = 1;
    for (const stage& s : stages) grown *= (1 + wire_error(s.wire)) * (1 + wire_error(s.wire));
    return grown - 1;
}

const rule& plan_data::choose(collective c, std::int64_t bytes) const {
    const auto found = rules.find(c);
    if (found == rules.end())
        throw plan_error(fmt::format("the plan for {} has no rules for {}; plan again", name, to_string(c)));
    const std::vector<rule>& list = found->second;
    return *std::find_if(list.begin(), list.end(), [&](const rule& r) { return bytes <= r.up_to; });
}

std::string level_names(const hierarchy& machine, const stage& s) {
    std::string names;
    for (const int l : s.levels) {
        if (!names.empty()) names += '+';
        const bool known = l >= 0 && l < machine.depth();
        names += known ? machine.levels[static_cast<std::size_t>(l)].name : fmt::format("level {}", l);
    }
    return names;
}

std::string group_text(const std::vector<int>& sizes) {
    const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
    return *low == *high ? fmt::format("{}", *low) : fmt::format("{}..{}", *low, *high);
}

std::string describe(const stage& s) {
    std::string text = fmt::format("{} {}", to_string(s.how), s.sends() ? s.algorithm : to_string(s.provider));
    if (s.sends() && s.provider != provider::messages) text += fmt::format(" over {}", to_string(s.provider));
    if (!s.shares.empty()) text += fmt::format(" shares {}", fmt::join(s.shares, ":"));
    if (s.route_share > 0) text += fmt::format(" route_share {}", s.route_share);
    if (s.wire != wire_type::exact) text += fmt::format(" wire {}", to_string(s.wire));
    return text;
}

std::string describe(const hierarchy& machine, std::span<const stage> stages) {
    const tree shape = stage_tree(machine, stages);
    std::string text;
    for (std::size_t n = 0; n < stages.size(); ++n)
        text += fmt::format("{}{}:{} {}", n > 0 ? " > " : "", level_names(machine, stages[n]),
                            group_text(shape.children()[n]), describe(stages[n]));
    return text;
}

}  // namespace terrace::detail
