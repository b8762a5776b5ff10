#include "tools/terrace/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/version.hpp>

#include "base/units.hpp"
#include "machine/link_rows.hpp"
#include "tools/common/svg.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t most_spans = 100'000;

std::string span_name(const hierarchy& machine, const rule& how, const stage_span& s) {
    return fmt::format("{} {}", stage_text(machine, how.stages[static_cast<std::size_t>(s.stage)]),
                       s.down ? "down" : "up");
}

// One direction of a level's links over time.
struct level_load {
    const link_load* busiest = nullptr;
    double average = 0;           // bytes
    std::vector<double> history;  // average part of the rate, by interval
    std::vector<double> of_busiest;
};

std::vector<level_load> loads_by_level(const hierarchy& machine, const simulation& s) {
    std::vector<level_load> loads(static_cast<std::size_t>(link_rows(machine).count()));
    const auto intervals = static_cast<std::size_t>(std::ceil(s.time / s.interval));
    std::vector<double> links(loads.size(), 0);
    for (const link_load& l : s.links) {
        level_load& of = loads[static_cast<std::size_t>(l.row)];
        of.history.resize(intervals);
        ++links[static_cast<std::size_t>(l.row)];
        of.average += l.bytes;
        for (std::size_t i = 0; i < std::min(intervals, l.history.size()); ++i) of.history[i] += l.history[i];
        if (of.busiest == nullptr || l.bytes > of.busiest->bytes) of.busiest = &l;
    }
    for (std::size_t l = 0; l < loads.size(); ++l) {
        level_load& of = loads[l];
        of.average /= links[l];
        const double full = of.busiest->rate * s.interval;
        for (double& part : of.history) part = std::min(1.0, part / links[l] / full);
        of.of_busiest.resize(intervals);
        for (std::size_t i = 0; i < std::min(intervals, of.busiest->history.size()); ++i)
            of.of_busiest[i] = std::min(1.0, of.busiest->history[i] / full);
    }
    return loads;
}

// Ranks to draw: the first and the last of the machine, and some evenly between.
std::vector<int> shown_ranks(int ranks) {
    constexpr int most = 8;
    std::set<int> shown;
    const int n = std::min(most, ranks);
    for (int i = 0; i < n; ++i)
        shown.insert(n == 1 ? 0 : static_cast<int>(std::lround(static_cast<double>(i) * (ranks - 1) / (n - 1))));
    return {shown.begin(), shown.end()};
}

// In how many orders parts of a vector go through the stages side by side.
int routes_of(const simulation& s) {
    int routes = 1;
    for (const stage_span& span : s.spans) routes = std::max(routes, span.route);
    return routes;
}

// 1, 2 or 5 times a power of ten, such that there are about eight of it.
double tick_of(double time) {
    const double rough = time / 8, power = std::pow(10, std::floor(std::log10(rough)));
    return rough / power < 1.5 ? power : rough / power < 3.5 ? 2 * power : rough / power < 7.5 ? 5 * power : 10 * power;
}

}  // namespace

int traced_ranks(const simulation& s) {
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
    const std::vector<level_load> loads = loads_by_level(machine, s);
    for (std::size_t l = 0; l < loads.size(); ++l) {
        const std::string name = fmt::format("{} {} {}", link_rows(machine).name(static_cast<int>(l)),
                                             loads[l].busiest->inward ? "to" : "from", loads[l].busiest->child);
        for (std::size_t i = 0; i < loads[l].of_busiest.size(); ++i)
            events.push_back({{"ph", "C"},
                              {"pid", 0},
                              {"name", name},
                              {"ts", static_cast<double>(i) * s.interval * 1e6},
                              {"args", {{"percent", std::round(1000 * loads[l].of_busiest[i]) / 10}}}});
    }
    for (int r = 0; r < ranks; ++r) process(r + 1, fmt::format("rank {}", r));
    // Stages of one lane overlap, as segments pass from one to the next: each has a track of its own.
    const int routes = routes_of(s), stages = static_cast<int>(how.stages.size());
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
    // Keys in this order: who made the file stands at its beginning.
    return fmt::format("{{\"made_by\": \"terrace {}\", \"displayTimeUnit\": \"ms\", \"traceEvents\": {}}}\n", version(),
                       events.dump());
}

std::string timeline_svg(const hierarchy& machine, const rule& how, const simulation& s, const std::string& title) {
    constexpr double left = 190, right = 110, plot = 800, strip = 46, gap = 8;
    const int routes = routes_of(s);
    const double row = routes == 1 ? 13 : 1 + 7 * routes, way = (row - 1) / routes;  // of a lane, and of a route in it
    const double width = left + plot + right;
    svg out(width, 100);
    const double time = s.time > 0 ? s.time : 1;
    const auto x_of = [&](double when) { return left + plot * when / time; };
    out.text(16, 24, title, 14, svg::anchor::start, "#222", true);
    out.text(16, 42,
             fmt::format("simulated {}, {} chunks in {} lanes", format_duration(s.time), s.chunks.chunks, s.lanes), 12,
             svg::anchor::start, "#555");

    double x = left, y = 62;
    for (std::size_t i = 0; i < how.stages.size(); ++i)
        for (const bool down : {false, true}) {
            if (std::none_of(s.spans.begin(), s.spans.end(), [&](const stage_span& span) {
                    return span.stage == static_cast<int>(i) && span.down == down;
                }))
                continue;
            const std::string name = stage_text(machine, how.stages[i]) + (down ? " down" : " up");
            if (x + text_width(name) + 34 > width) x = left, y += 18;
            out.rect(x, y - 10, 12, 12, {.fill = lighter(colour(static_cast<int>(i)), down ? 0.5 : 0)});
            out.text(x + 17, y, name);
            x += text_width(name) + 34;
        }
    y += 16;

    const double top = y;
    const int lanes = std::min(s.lanes, 4);
    for (const int rank : shown_ranks(machine.ranks())) {
        const double bottom = y + lanes * row;
        out.text(left - 10, (y + bottom) / 2 + 4, fmt::format("rank {}", rank), 12, svg::anchor::end);
        out.rect(left, y, plot, lanes * row, {.fill = "#f3f3f3"});
        for (const stage_span& span : s.spans) {
            if (span.rank != rank || span.lane >= lanes) continue;
            const double begin = x_of(span.begin), end = x_of(span.end);
            const std::string fill = lighter(colour(span.stage), span.down ? 0.5 : 0);
            const double down = way * std::max(0, span.route - 1), high = span.route == 0 ? row - 1 : way;
            out.rect(begin, y + span.lane * row + 0.5 + down, std::max(0.3, end - begin), high,
                     {.fill = fill, .stroke = end - begin > 6 ? "white" : "none", .width = 0.5, .opacity = 0.9},
                     fmt::format("chunk {}: {}, {} to {}", span.chunk, span_name(machine, how, span),
                                 format_duration(span.begin), format_duration(span.end)));
        }
        y = bottom + gap;
    }
    out.text(left + plot + 10, top + 10,
             s.lanes > lanes ? fmt::format("{} of {} lanes", lanes, s.lanes)
             : routes == 1   ? "a row: a lane"
                             : fmt::format("{} rows: a lane", routes),
             11, svg::anchor::start, "#555");

    y += 20;
    out.text(16, y, "Links: the busiest of each level (filled), and the average of all (line)", 12, svg::anchor::start,
             "#222", true);
    y += 10;
    const std::vector<level_load> loads = loads_by_level(machine, s);
    for (std::size_t l = loads.size(); l-- > 0;) {
        const link_load& worst = *loads[l].busiest;
        const double bottom = y + strip;
        out.rect(left, y, plot, strip, {.fill = "#f3f3f3"});
        const auto points = [&](const std::vector<double>& of, bool closed) {
            std::string text = closed ? fmt::format("{:.2f},{:.2f} ", left, bottom) : "";
            for (std::size_t i = 0; i < of.size(); ++i)
                for (const std::size_t edge : {i, i + 1})
                    text += fmt::format("{:.2f},{:.2f} ", x_of(std::min(time, static_cast<double>(edge) * s.interval)),
                                        bottom - strip * of[i]);
            return text + (closed ? fmt::format("{:.2f},{:.2f}", left + plot, bottom) : "");
        };
        out.polyline(points(loads[l].of_busiest, true), {.fill = lighter("#bb5500", 0.35)});
        out.polyline(points(loads[l].history, false), {.stroke = "#333", .width = 1.2});
        out.text(left - 10, y + 17, link_rows(machine).text(static_cast<int>(l)), 12, svg::anchor::end);
        out.text(left - 10, y + 32, format_bandwidth(worst.rate), 11, svg::anchor::end, "#555");
        out.text(left + plot + 10, y + 17, fmt::format("{:.0f} % busy", 100 * worst.bytes / worst.rate / time), 12,
                 svg::anchor::start, "#222", true);
        out.text(left + plot + 10, y + 32, fmt::format("average {:.0f} %", 100 * loads[l].average / worst.rate / time),
                 11, svg::anchor::start, "#555");
        y = bottom + gap;
    }
    const double tick = tick_of(time);
    for (double t = 0; t <= time * (1 + 1e-9); t += tick) {
        out.line(x_of(t), y - gap, x_of(t), y - gap + 5, "#222");
        out.text(x_of(t), y + 12, t == 0 ? "0" : format_duration(t), 11, svg::anchor::middle, "#222");
    }
    out.grow(y + 26);
    return out.finish();
}

}  // namespace terrace::detail
