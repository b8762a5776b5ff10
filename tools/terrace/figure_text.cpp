// Texts about a machine's figures: names and values, their effects, and corrections by profiles.

#include "tools/terrace/figure_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "planner/sensitivity.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

// Rounds to four digits.
double rounded(double value) {
    if (!(value > 0)) return value;
    const double digit = std::pow(10, std::floor(std::log10(value)) - 3);
    return std::round(value / digit) * digit;
}

constexpr double worth_a_line = 1.1;

std::string at_text(collective what, std::int64_t bytes) {
    return fmt::format("{}, {}", to_string(what), format_bytes(bytes));
}

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

// Returns "latency of node, rack; overhead of node, rack; rate of reductions".
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

std::string name_of(const hierarchy& machine, const figure& f) {
    using enum figure::fact;
    if (f.what == reduction) return "rate of reductions";
    const std::string_view what = f.what == bandwidth ? "bandwidth" : f.what == latency ? "latency" : "overhead";
    return fmt::format("{} of {}", what, machine.levels[at(f.level)].name);
}

std::string value_text(const figure& f, double factor) {
    const double value = factor == 1 ? f.value : rounded(f.value * factor);
    return f.is_time() ? format_duration(value) : format_bandwidth(value);
}

std::string sensitivity_text(const plan_data& plan) {
    table rows("<<<><><<");
    rows.add({"assumed", "", "if it is", "time", "most for", "anew", "most for", "stages of the new plan there"});
    std::size_t listed = 0, others = 0;
    for (const sensitivity& s : sensitivities(plan, true)) {
        const bool changes_choice = s.gain > worth_a_line;
        if (s.change() < worth_a_line && !changes_choice) {
            ++others;
            continue;
        }
        ++listed;
        rows.add({name_of(plan.machine, s.of), value_text(s.of), value_text(s.of, s.factor),
                  fmt::format("{:.2f}x", s.time), s.change() > 1 ? at_text(s.time_of, s.time_at) : "",
                  changes_choice ? fmt::format("{:.2f}x", 1 / s.gain) : "",
                  changes_choice ? at_text(s.gain_of, s.gain_at) : "",
                  changes_choice ? describe(plan.machine, s.choice) : ""});
    }
    if (listed + others == 0) return "sensitivity: nothing is assumed\n";
    std::string text = "sensitivity: what half and twice each assumed figure would change\n";
    if (listed > 0)
        text +=
            rows.text() + "  time: of this plan, as it is; anew: of a plan made for the other value, beside this one\n";
    return text +
           fmt::format("  others that change times and choices by less than 10 %: {} of {}\n", others, listed + others);
}

std::string most_sensitive_text(const plan_data& plan) {
    const std::vector<sensitivity> all = sensitivities(plan, false, collective::allreduce);
    if (all.empty() || all.front().change() < worth_a_line) return {};
    const sensitivity& s = all.front();
    return fmt::format("assumed, and decisive: {}, {}; with {} {} takes {:.2f} times as long (--sensitivity has all)\n",
                       name_of(plan.machine, s.of), value_text(s.of), value_text(s.of, s.factor),
                       at_text(s.time_of, s.time_at), s.time);
}

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
    if (c.unknown > 0) text += fmt::format("profile: sizes not used, as they depend on what is left: {}\n", c.unknown);
    if (c.others > 0) text += fmt::format("profile: profiles not used, of machines of other shapes: {}\n", c.others);
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
