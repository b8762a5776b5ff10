#include "tools/terrace/report/parts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/units.hpp"
#include "machine/level_yaml.hpp"
#include "machine/link_rows.hpp"
#include "planner/planner.hpp"
#include "planner/pricer.hpp"
#include "planner/sensitivity.hpp"
#include "planner/simulate/simulate.hpp"
#include "schedule/slice.hpp"
#include "tools/terrace/figure_text.hpp"
#include "tools/terrace/summary.hpp"
#include "tools/terrace/trace.hpp"
#include "topology/describe.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

constexpr std::int64_t smallest = 1 << 10, largest = 256 << 20;  // [bytes]
constexpr int ranks_on_page = 8;
constexpr std::size_t spans_on_page = 20'000;
constexpr std::int64_t steps_on_page = 1'000'000;  // limit of simulation steps: a second or two
constexpr int priced_ranks = 4096;                 // larger machines get no prices of assumptions and baselines

json level_json(const hierarchy& machine, int l) {
    const level& of = machine.levels[at(l)];
    json assumed = json::array();
    if (of.bandwidth_assumed) assumed.push_back("bandwidth");
    if (of.latency_assumed) assumed.push_back("latency");
    if (of.overhead_assumed) assumed.push_back("overhead");
    json entry{{"name", of.name},
               {"fabric", fabric_text(of)},
               {"bandwidth", bandwidth_text(of)},
               {"latency", format_duration(of.latency)},
               {"overhead", format_duration(of.overhead)},
               {"assumed", assumed},
               {"domains", machine.shape.domains(l)}};
    if (const auto size = machine.shape.uniform_size(l)) entry["children"] = *size;
    else entry["children"] = machine.shape.children()[at(l)];
    if (!of.rates.empty()) {
        entry["rates"] = json::array();
        for (const double rate : of.rates) entry["rates"].push_back(format_bandwidth(rate));
    }
    if (!of.names.empty()) entry["names"] = of.names;
    if (const std::string devices = device_rates_text(of); !devices.empty()) entry["devices"] = devices;
    return entry;
}

json machine_json(const hierarchy& machine) {
    json all{{"ranks", machine.ranks()},
             {"shape", shape_text(machine.shape)},
             {"node_levels", machine.node_levels()},
             {"levels", json::array()}};
    for (int l = 0; l < machine.depth(); ++l) all["levels"].push_back(level_json(machine, l));
    if (!machine.hosts.empty()) all["hosts"] = machine.hosts;
    if (!machine.nics.empty()) all["nics"] = nics_text(machine.nics);
    if (machine.processors.reduction > 0) all["reduction"] = format_bandwidth(machine.processors.reduction);
    return all;
}

bool is_large(const hierarchy& machine) { return machine.ranks() > priced_ranks; }

// Returns a row for each assumed figure, most important first; for large machines, only the figure and its value.
json assumptions_json(const plan_data& plan) {
    json all = json::array();
    if (is_large(plan.machine)) {
        for (const figure& f : figures_of(plan.machine))
            if (f.assumed) all.push_back({name_of(plan.machine, f), value_text(f)});
        return all;
    }
    for (const sensitivity& s : sensitivities(plan, false))
        all.push_back({name_of(plan.machine, s.of), value_text(s.of), value_text(s.of, s.factor), ratio_text(s.time, 1),
                       s.change() > 1 ? fmt::format("{} of {}", to_string(s.time_of), format_bytes(s.time_at)) : "-"});
    return all;
}

std::vector<std::string> baselines_of(const hierarchy& machine, collective what) {
    if (row_of(what).exchange) return {"direct"};
    std::vector<std::string> names{"flat-ring"};
    if (machine.depth() > 1) names.emplace_back("two-level");
    if (machine.nics.rail_count() > 1) names.emplace_back("flat-rings");
    return names;
}

json collective_json(const plan_data& plan, collective what, const std::vector<rule>& rules) {
    json listed = json::array();
    for (const rule& r : rules)
        listed.push_back({{"up_to", bound_text(r.up_to)},
                          {"stages", describe(plan.machine, r.stages)},
                          {"lanes", lanes_text(r)},
                          {"at", format_bytes(r.at)},
                          {"predicted", predicted_text(r)},
                          {"of_limit", percent_of_limit(r.limit, r.predicted)}});
    std::vector<std::int64_t> sizes;  // sizes to plot: powers of four; every second on large machines
    for (std::int64_t b = smallest; b <= largest; b *= is_large(plan.machine) ? 16 : 4) sizes.push_back(b);
    json ours = json::array(), limits = json::array();
    for (const std::int64_t bytes : sizes) {
        ours.push_back(modelled_time(plan, what, bytes));
        limits.push_back(limit(plan.machine, bytes, what));
    }
    json series{{{"name", "the plan"}, {"role", "plan"}, {"times", ours}}};
    if (!is_large(plan.machine))  // tuning the lanes of a ring over so many ranks takes a minute
        for (const std::string& name : baselines_of(plan.machine, what)) {
            json times = json::array();
            for (const rule& r : tuned(plan.machine, baseline(plan.machine, name, what), sizes, what))
                times.push_back(r.predicted);
            series.push_back({{"name", name}, {"role", "other"}, {"times", times}});
        }
    return {{"name", to_string(what)}, {"rules", listed}, {"sizes", sizes}, {"series", series}, {"limits", limits}};
}

// ---- one call -------------------------------------------------------------------------------------------------------

// Returns n ranks: the first, the last, and others evenly between.
std::vector<int> evenly(int ranks, int n) {
    std::set<int> shown;
    for (int i = 0; i < n; ++i)
        shown.insert(n == 1 ? 0 : static_cast<int>(std::lround(static_cast<double>(i) * (ranks - 1) / (n - 1))));
    return {shown.begin(), shown.end()};
}

// Returns as many ranks as have few enough spans.
std::vector<int> ranks_to_show(const simulation& s) {
    const auto ranks = static_cast<int>(s.processors.size());
    for (int n = std::min(ranks_on_page, ranks);; --n) {
        std::vector<int> shown = evenly(ranks, n);
        const auto spans = std::ranges::count_if(
            s.spans, [&](const stage_span& span) { return std::ranges::binary_search(shown, span.rank); });
        if (n == 1 || spans <= static_cast<std::ptrdiff_t>(spans_on_page)) return shown;
    }
}

double microseconds(double seconds) { return std::round(seconds * 1e8) / 100; }

json timeline_json(const hierarchy& machine, const simulation& s) {
    const std::vector<int> ranks = ranks_to_show(s);
    json spans = json::array();
    std::size_t left_out = 0;
    for (const stage_span& span : s.spans) {
        const auto row = std::find(ranks.begin(), ranks.end(), span.rank);
        if (row == ranks.end()) continue;
        if (spans.size() == spans_on_page) {
            ++left_out;
            continue;
        }
        spans.push_back({row - ranks.begin(), span.lane, span.stage, span.down ? 1 : 0, microseconds(span.begin),
                         microseconds(span.end), span.chunk});
    }
    const link_rows rows(machine);
    json links = json::array();
    for (const link_load* busiest : busiest_links(machine, s)) {
        if (busiest == nullptr) continue;
        json history = json::array();
        const double full = busiest->rate * s.interval;
        for (std::size_t i = 0; i < busiest->history.size() && static_cast<double>(i) * s.interval < s.time; ++i)
            history.push_back(std::round(100 * std::min(1.0, busiest->history[i] / full)));
        links.push_back({{"name", rows.text(busiest->row)},
                         {"rate", format_bandwidth(busiest->rate)},
                         {"busy", s.time > 0 ? std::round(100 * busiest->bytes / busiest->rate / s.time) : 0},
                         {"history", history}});
    }
    return {{"time", microseconds(s.time)}, {"lanes", s.lanes}, {"chunks", s.chunks.chunks},
            {"interval", s.interval * 1e6}, {"ranks", ranks},   {"spans", spans},
            {"left_out", left_out},         {"links", links}};
}

// Simulates the largest call of at most `bytes` that is short enough, and sets `bytes` to its size. The price counts
// messages before programs are made, which is slow on large machines; the simulation counts all steps.
std::optional<simulation> simulation_up_to(const plan_data& plan, collective what, std::int64_t& bytes) {
    const simulation_options how{.slot_bytes = slot_bytes(plan), .most_steps = steps_on_page};
    pricer prices(plan.machine);
    for (std::int64_t size = bytes; size >= smallest;
         size = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size - 1)))) {
        const rule& r = plan.choose(what, size);
        const price cost = prices.price_stages(r.stages, what);
        if (cost.messages(static_cast<double>(size), r.chunk) > steps_on_page) continue;
        try {
            simulation made = simulate(plan.machine, r, what, size, how);
            bytes = size;
            return made;
        } catch (const plan_error&) {  // too many steps
        }
    }
    return {};
}

// Returns the reason if the timeline is not of the requested call.
std::string timeline_note(const hierarchy& machine, std::int64_t asked, std::int64_t shown, bool simulated) {
    if (machine.ranks() == 1) return "There is no timeline: one rank sends nothing, and a call takes no time.";
    const std::string limit =
        fmt::format("takes more than {} million steps to simulate, the most for a page", steps_on_page / 1'000'000);
    if (!simulated)
        return fmt::format(
            "There is no timeline: even {} {}. All figures above are of closed forms, which take no "
            "steps.",
            format_bytes(smallest), limit);
    return shown == asked
               ? ""
               : fmt::format("{} {}; this is the largest power of two that takes fewer.", format_bytes(asked), limit);
}

json call_json(const plan_data& plan, collective what, const std::int64_t asked) {
    const hierarchy& machine = plan.machine;
    std::int64_t bytes = asked;
    const std::optional<simulation> simulated = simulation_up_to(plan, what, bytes);
    const rule& chosen = plan.choose(what, bytes);
    const prediction p = predict(machine, chosen.stages, bytes, chosen.lanes, chosen.chunk, what);
    json stages = json::array(), links = json::array();
    for (std::size_t i = 0; i < chosen.stages.size(); ++i)
        stages.push_back({{"text", stage_text(machine, chosen.stages[i])},
                          {"first", chosen.stages[i].levels.front()},
                          {"last", chosen.stages[i].levels.back()},
                          {"time", format_duration(p.stages[i].time)},
                          {"startups", format_duration(p.stages[i].latency)}});
    const link_rows rows(machine);
    for (const link_cost& l : p.links)
        links.push_back({{"name", rows.text(l.row)},
                         {"rate", format_bandwidth(rows.rate(l.row, l.child))},
                         {"bytes", fmt::format("{:.4g} MB", l.bytes / 1e6)},
                         {"part", p.time > 0 ? l.time / p.time : 0}});
    json call{{"collective", to_string(what)},
              {"bytes", format_bytes(bytes)},
              {"predicted", format_duration(p.time)},
              {"limit", format_duration(limit(machine, bytes, what))},
              {"of_limit", percent_of_limit(limit(machine, bytes, what), p.time)},
              {"stages", stages},
              {"links", links},
              {"note", timeline_note(machine, asked, bytes, simulated.has_value())}};
    if (simulated && machine.ranks() > 1) call["timeline"] = timeline_json(machine, *simulated);
    return call;
}

}  // namespace

double modelled_time(const plan_data& plan, collective what, std::int64_t bytes) {
    const rule& r = plan.choose(what, bytes);
    return predict(plan.machine, r.stages, bytes, r.lanes, r.chunk, what).time;
}

json plan_part(const plan_data& plan, collective what, std::int64_t bytes) {
    json collectives = json::array();
    for (const auto& [c, rules] : plan.rules) collectives.push_back(collective_json(plan, c, rules));
    const collective shown = plan.rules.contains(what) ? what : plan.rules.begin()->first;
    return {{"kind", "plan"},
            {"name", plan.name},
            {"made_by", plan.made_by},
            {"id", plan.id},
            {"verified", plan.verified},
            {"machine", machine_json(plan.machine)},
            {"assumptions", assumptions_json(plan)},
            {"collectives", collectives},
            {"call", call_json(plan, shown, bytes)}};
}

}  // namespace terrace::detail
