#include "tools/terrace/trace.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/version.hpp>

#include "machine/link_rows.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

std::string span_name(const hierarchy& machine, const rule& how, const stage_span& s) {
    return fmt::format("{} {}", stage_text(machine, how.stages[at(s.stage)]), s.down ? "down" : "up");
}

}  // namespace

std::vector<const link_load*> busiest_links(const hierarchy& machine, const simulation& s) {
    std::vector<const link_load*> busiest(at(link_rows(machine).count()));
    for (const link_load& l : s.links)
        if (auto& most = busiest[at(l.row)]; most == nullptr || l.bytes > most->bytes) most = &l;
    return busiest;
}

int traced_ranks(const simulation& s) {
    constexpr std::size_t most_spans = 100'000;
    const std::size_t ranks = s.processors.size();
    const std::size_t each = std::max<std::size_t>(1, s.spans.size() / ranks);
    return static_cast<int>(std::clamp<std::size_t>(most_spans / each, 1, ranks));
}

std::string chrome_trace(const hierarchy& machine, const rule& how, const simulation& s, int ranks) {
    nlohmann::json events = nlohmann::json::array();
    const auto process = [&](int number, const std::string& name) {
        events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", number}, {"args", {{"name", name}}}});
        events.push_back(
            {{"ph", "M"}, {"name", "process_sort_index"}, {"pid", number}, {"args", {{"sort_index", number}}}});
    };
    process(0, "links: the busiest of each level");
    const auto intervals = static_cast<std::size_t>(std::ceil(s.time / s.interval));
    for (const link_load* link : busiest_links(machine, s)) {
        if (link == nullptr) continue;
        const std::string name =
            fmt::format("{} {} {}", link_rows(machine).name(link->row), link->inward ? "to" : "from", link->child);
        const double full = link->rate * s.interval;
        for (std::size_t i = 0; i < intervals; ++i) {
            const double part = i < link->history.size() ? std::min(1.0, link->history[i] / full) : 0;
            events.push_back({{"ph", "C"},
                              {"pid", 0},
                              {"name", name},
                              {"ts", static_cast<double>(i) * s.interval * 1e6},
                              {"args", {{"percent", std::round(1000 * part) / 10}}}});
        }
    }
    for (int r = 0; r < ranks; ++r) process(r + 1, fmt::format("rank {}", r));
    // Stages of one lane overlap, as segments pass from one to the next, so each stage has its own track.
    int routes = 1;  // number of orders in which parts of a vector pass the stages side by side
    for (const stage_span& span : s.spans) routes = std::max(routes, span.route);
    const int stages = static_cast<int>(how.stages.size());
    const auto track_of = [&](const stage_span& span) {
        return ((span.lane * stages + span.stage) * 2 + span.down) * routes + std::max(0, span.route - 1);
    };
    std::set<std::pair<int, int>> named;  // rank, track
    for (const stage_span& span : s.spans) {
        if (span.rank >= ranks) continue;
        if (named.insert({span.rank, track_of(span)}).second)
            events.push_back(
                {{"ph", "M"},
                 {"name", "thread_name"},
                 {"pid", span.rank + 1},
                 {"tid", track_of(span)},
                 {"args", {{"name", fmt::format("lane {}: {}", span.lane, span_name(machine, how, span))}}}});
        events.push_back({{"ph", "X"},
                          {"pid", span.rank + 1},
                          {"tid", track_of(span)},
                          {"name", span_name(machine, how, span)},
                          {"cat", span.down ? "down" : "up"},
                          {"ts", span.begin * 1e6},
                          {"dur", (span.end - span.begin) * 1e6},
                          {"args", {{"chunk", span.chunk}, {"stage", span.stage}, {"lane", span.lane}}}});
    }
    // The keys are in this order so that the file begins with "made_by".
    return fmt::format("{{\"made_by\": \"terrace {}\", \"displayTimeUnit\": \"ms\", \"traceEvents\": {}}}\n", version(),
                       events.dump());
}

}  // namespace terrace::detail
