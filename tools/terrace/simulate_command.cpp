#include "tools/terrace/commands.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "base/units.hpp"
#include "machine/link_rows.hpp"
#include "planner/planner.hpp"
#include "planner/simulate/simulate.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/common/progress.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/proof.hpp"
#include "tools/terrace/summary.hpp"
#include "tools/terrace/trace.hpp"

namespace terrace::detail {

namespace {

std::string percent(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-"; }

void print_times(const simulation& s, double closed_form, double limit) {
    table rows("<>>>");
    rows.add({"", "time", "of limit", ""});
    rows.add({"simulated", format_duration(s.time), percent_of_limit(limit, s.time), ""});
    rows.add({"closed form", format_duration(closed_form), percent_of_limit(limit, closed_form),
              closed_form > 0 ? fmt::format("{:+.1f} %", 100 * (closed_form / s.time - 1)) : ""});
    rows.add({"limit", format_duration(limit), "", ""});
    say("{}\n", rows.text());
}

void print_links(const hierarchy& machine, const simulation& s) {
    table rows("<>>>>>>");
    rows.add({"links into", "links", "rate", "bytes", "busy: most", "average", "least"});
    const auto mean = [](const std::vector<double>& of) {
        return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
    };
    const link_rows links(machine);
    for (int row = 0; row < links.count(); ++row) {
        std::vector<double> busy;
        const link_load* worst = nullptr;
        for (const link_load& link : s.links) {
            if (link.row != row) continue;
            busy.push_back(link.bytes / link.rate);
            if (worst == nullptr || link.bytes / link.rate > worst->bytes / worst->rate) worst = &link;
        }
        rows.add({links.name(row), fmt::format("{}", busy.size() / 2), format_bandwidth(worst->rate),
                  fmt::format("{:.4g} MB", worst->bytes / 1e6),
                  fmt::format("{} ({} {})", percent(std::ranges::max(busy), s.time), worst->inward ? "to" : "from",
                              worst->child),
                  percent(mean(busy), s.time), percent(std::ranges::min(busy), s.time)});
    }
    rows.add({"processors", fmt::format("{}", s.processors.size()), "", "",
              percent(std::ranges::max(s.processors), s.time), percent(mean(s.processors), s.time),
              percent(std::ranges::min(s.processors), s.time)});
    say("each direction of each link by itself; bytes are those of the busiest\n{}\n", rows.text());
}

void print_stages(const hierarchy& machine, const rule& how, const simulation& s) {
    struct sum {
        double total = 0, longest = 0;
        std::int64_t count = 0;
    };
    std::map<std::pair<int, bool>, sum> sums;
    for (const stage_span& span : s.spans) {
        sum& of = sums[{span.stage, span.down}];
        of.total += span.end - span.begin;
        of.longest = std::max(of.longest, span.end - span.begin);
        ++of.count;
    }
    table rows("<<>>");
    rows.add({"stage", "", "a chunk takes", "at most"});
    for (const auto& [which, of] : sums)
        rows.add({stage_text(machine, how.stages[static_cast<std::size_t>(which.first)]), which.second ? "down" : "up",
                  format_duration(of.total / static_cast<double>(of.count)), format_duration(of.longest)});
    say("{}\n", rows.text());
}

const link_load& busiest_link(const simulation& s) {
    return *std::ranges::max_element(s.links, {}, [](const link_load& l) { return l.bytes / l.rate; });
}

std::string bottleneck(const hierarchy& machine, const simulation& s) {
    const link_load& worst = busiest_link(s);
    const double link = worst.bytes / worst.rate;
    const double processor = std::ranges::max(s.processors);
    if (std::max(link, processor) < s.time / 2) return "start-ups: nothing is busy half of the time";
    if (processor > link) return fmt::format("processors, busy {} of the time", percent(processor, s.time));
    return fmt::format("{}, busy {} of the time", link_rows(machine).text(worst.row), percent(link, s.time));
}

// Returns the output of print_text for programs, in bytes and seconds.
std::string json_text(const plan_data& plan, const simulate_command& a, const rule& how, const simulation& s,
                      const prediction& p) {
    const link_load& worst = busiest_link(s);
    const nlohmann::ordered_json made{{"name", plan.name},
                                      {"ranks", plan.machine.ranks()},
                                      {"collective", a.call.collective},
                                      {"bytes", a.call.size()},
                                      {"shape", describe(plan.machine, how.stages)},
                                      {"lanes", s.lanes},
                                      {"chunks", s.chunks.chunks},
                                      {"messages", s.messages},
                                      {"simulated_s", s.time},
                                      {"closed_form_s", p.time},
                                      {"limit_s", limit(plan.machine, a.call.size(), a.call.what())},
                                      {"busiest_link",
                                       {{"level", link_rows(plan.machine).name(worst.row)},
                                        {"bytes", worst.bytes},
                                        {"bandwidth_bytes_per_s", worst.rate}}},
                                      {"busiest_processor_s", std::ranges::max(s.processors)}};
    return made.dump(2) + "\n";
}

void print_text(const plan_data& plan, const simulate_command& a, const rule& how, const simulation& s,
                const prediction& p) {
    const hierarchy& machine = plan.machine;
    say("{}: {} of {} over {} ({})\n", plan.name, a.call.collective, format_bytes(a.call.size()), ranks_text(machine),
        shape_text(machine.shape));
    say("  {}\n  {} chunk{} in {} lane{}, {} messages\n\n", describe(machine, how.stages), s.chunks.chunks,
        s.chunks.chunks == 1 ? "" : "s", s.lanes, s.lanes == 1 ? "" : "s", s.messages);
    print_times(s, p.time, limit(machine, a.call.size(), a.call.what()));
    print_links(machine, s);
    print_stages(machine, how, s);
    say("bottleneck: {}\n", bottleneck(machine, s));
}

// Returns advice: the largest power of two below `bytes` that can be simulated, if there is one.
std::string fitting_size(const plan_data& plan, collective what, std::int64_t bytes, simulation_options o) {
    constexpr std::int64_t smallest = 64;
    o.until = -1;  // programs are made, but do not run
    o.progress = {};
    for (auto size = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes - 1))); size >= smallest;
         size /= 2)
        try {
            simulate(plan.machine, plan.choose(what, size), what, size, o);
            return fmt::format("; the largest power of two that fits is --bytes {}", format_bytes(size));
        } catch (const plan_error&) {  // too many steps
        }
    return "; no message fits";
}

}  // namespace

int simulate_command::run() const {
    expect_replaceable(trace, {plan_file}, force);
    plan_data plan = read_runnable_plan(plan_file);
    const hierarchy& machine = plan.machine;
    const collective what = call.what();
    const std::int64_t bytes = call.size();
    if (!origin.empty()) plan.rules[what] = rules_for(machine, origin, what);  // as terrace-bench runs the baseline
    const rule& how = plan.choose(what, bytes);
    simulation_options how_simulated{.slot_bytes = slot_bytes(plan), .reproducible = reproducible};
    simulation s;
    try {
        terrace::detail::progress shown;
        how_simulated.progress = [&](double part) {
            shown.show([&] { return fmt::format("simulated {:3.0f} %", 100 * part); });
        };
        s = simulate(machine, how, what, bytes, how_simulated);
    } catch (const plan_error& e) {
        throw plan_error(e.what() + fitting_size(plan, what, bytes, how_simulated));
    }
    const prediction p = predict(machine, how.stages, bytes, how.lanes, how.chunk, what);
    if (json) say_text(json_text(plan, *this, how, s, p));
    else print_text(plan, *this, how, s, p);
    if (!trace.empty()) {
        const int ranks = traced_ranks(s);
        write_output(trace, chrome_trace(machine, how, s, ranks));
        if (!json)
            say("trace of {} of {} ranks: {} (open it in https://ui.perfetto.dev)\n", ranks, machine.ranks(),
                trace.string());
    }
    return 0;
}

}  // namespace terrace::detail
