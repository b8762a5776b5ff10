#include "tools/terrace/profile_text.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/figure_text.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

using verdict = judged_figures::verdict;

std::string_view reason_of(verdict v) {
    switch (v) {
        case verdict::corrected: break;
        case verdict::as_written: return "the calls took what the file says, within 10 %";
        case verdict::small_part: return "less than a quarter of each call's time depends on them";
        case verdict::disagreeing: return "no factor brings the predictions of half of the calls within 20 %";
    }
    return "";
}

// "latency of node, rack; overhead of node, rack; rate of reductions".
std::string names_of(const hierarchy& machine, std::vector<figure> figures) {
    std::ranges::stable_sort(figures, {}, &figure::what);
    std::string text;
    for (std::size_t i = 0; i < figures.size(); ++i) {
        const bool same_kind = i > 0 && figures[i - 1].what == figures[i].what;
        if (same_kind) text += ", " + machine.levels[at(figures[i].level)].name;
        else text += (i > 0 ? "; " : "") + name_of(machine, figures[i]);
    }
    return text;
}

}  // namespace

std::string corrections_text(const hierarchy& before, const corrected_machine& c) {
    std::string text = fmt::format("profile: sizes used: {}", c.sizes);
    if (c.sizes > 0)
        text += fmt::format("; calls took {:.2f} to {:.2f} times as long as predicted", c.least_before, c.most_before);
    if (c.changed()) text += fmt::format(", {:.2f} to {:.2f} times with these figures", c.least, c.most);
    text += '\n';
    table rows("<>>>");
    std::map<verdict, std::vector<figure>> left;
    for (const judged_figures& each : c.judged)
        for (const figure& f : each.of)
            if (each.what != verdict::corrected) left[each.what].push_back(f);
            else
                rows.add({name_of(before, f), value_text(f), "-> " + value_text(f, each.factor),
                          fmt::format("{:.3g} times", each.factor)});
    text += rows.text();
    for (const auto& [why, figures] : left)
        text += fmt::format("profile: left, since {}:\n  {}\n", reason_of(why), names_of(before, figures));
    const auto add_unused = [&](std::string_view what, int number) {
        if (number > 0) text += fmt::format("profile: {}: {}\n", what, number);
    };
    add_unused("sizes not used, as they depend on what is left", c.unknown);
    add_unused("profiles not used, of machines of other shapes", c.others);
    return text;
}

std::string kept_text(const std::vector<kept_range>& kept) {
    if (kept.empty()) return "";
    table rows("<<<");
    for (const kept_range& k : kept)
        rows.add({std::string(to_string(k.what)), format_bytes(k.above) + " to " + bound_text(k.up_to),
                  k.sizes == 1 ? fmt::format("{:.2f} times", k.most)
                               : fmt::format("{:.2f} to {:.2f} times", k.least, k.most)});
    return "profile: rules that ran stay, whose calls took so many times what is predicted of other rules\n" +
           rows.text();
}

}  // namespace terrace::detail
