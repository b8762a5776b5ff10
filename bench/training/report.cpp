#include "bench/training/report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <terrace/version.hpp>

#include "base/units.hpp"
#include "bench/report/figures.hpp"
#include "bench/report/report.hpp"
#include "tools/common/table.hpp"

namespace terrace::detail::bench {

namespace {

using json = nlohmann::ordered_json;

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

json row_json(const training_row& r) {
    json made{{"algorithm", r.what.algorithm},
              {"bucket", bucket_text(r.what.bucket_bytes)},
              {"buckets", r.buckets},
              {"overlap", r.what.overlap},
              {"every", r.what.every},
              {"communicators", r.what.communicators},
              {"time_us", quantile(r.times, 0.5) * 1e6},
              {"time_us_min", quantile(r.times, 0) * 1e6},
              {"time_us_p25", quantile(r.times, 0.25) * 1e6},
              {"time_us_p75", quantile(r.times, 0.75) * 1e6},
              {"time_us_max", quantile(r.times, 1) * 1e6},
              {"times_us", microseconds_of(r.times)},
              {"ratio", quantile(r.ratios, 0.5)},
              {"bound_us", r.bound * 1e6},
              {"communication_us", quantile(r.communications, 0.5) * 1e6},
              {"exposed_us", quantile(r.exposed, 0.5) * 1e6},
              {"percent_processor", 100 * r.processor}};
    made["wrong"] = r.wrong ? json(*r.wrong) : json(nullptr);
    return made;
}

// A column, and its cell of each row.
struct column {
    const char* name;
    std::string (*cell)(const training_row& r);
    bool if_it_differs = false;  // else it stands above the table
};

constexpr column columns[] = {
    {"algorithm", [](const training_row& r) { return r.what.algorithm; }, true},
    {"bucket", [](const training_row& r) { return bucket_text(r.what.bucket_bytes); }},
    {"overlap", [](const training_row& r) { return std::string(r.what.overlap ? "on" : "off"); }, true},
    {"every", [](const training_row& r) { return std::to_string(r.what.every); }, true},
    {"communicators", [](const training_row& r) { return std::to_string(r.what.communicators); }, true},
    {"buckets", [](const training_row& r) { return std::to_string(r.buckets); }},
    {"time", [](const training_row& r) { return milliseconds(quantile(r.times, 0.5)); }},
    {"p25", [](const training_row& r) { return milliseconds(quantile(r.times, 0.25)); }},
    {"p75", [](const training_row& r) { return milliseconds(quantile(r.times, 0.75)); }},
    {"bound", [](const training_row& r) { return milliseconds(r.bound); }},
    {"exposed", [](const training_row& r) { return milliseconds(quantile(r.exposed, 0.5)); }},
    {"cpu", [](const training_row& r) { return fmt::format("{:.0f} %", 100 * r.processor); }},
    {"ratio", [](const training_row& r) { return fmt::format("{:.3f}", quantile(r.ratios, 0.5)); }},
    {"#wrong", [](const training_row& r) { return r.wrong ? std::to_string(*r.wrong) : "-"; }},
};

std::string columns_text(std::span<const training_row> rows) {
    std::vector<const column*> shown;
    std::vector<std::string> alike;
    for (const column& c : columns) {
        const std::string first = c.cell(rows.front());
        const bool differs = std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return c.cell(r) != first; });
        if (differs || !c.if_it_differs) shown.push_back(&c);
        else alike.push_back(fmt::format("{} {}", c.name, first));
    }
    table t(std::string(shown.size(), '>'));
    const auto add = [&](auto cell) {
        std::vector<std::string> cells;
        for (const column* c : shown) cells.push_back(cell(*c));
        t.add(std::move(cells));
    };
    add([](const column& c) { return std::string(c.name); });
    for (const training_row& r : rows) add([&](const column& c) { return c.cell(r); });
    return fmt::format("# all rows: {}\n{}", fmt::join(alike, ", "), t.text());
}

}  // namespace

std::string bucket_text(std::int64_t bucket_bytes) {
    if (bucket_bytes == training_settings::all) return "all";
    if (bucket_bytes == training_settings::automatic) return "automatic";
    return bucket_bytes == 0 ? "0" : format_bytes(bucket_bytes);
}

std::string to_text(const training_conditions& c, std::span<const training_row> rows) {
    const training_settings& s = c.asked;
    std::string text = fmt::format(
        "# terrace-bench {}, {}: training {}, {} gradients of float32, {:.1f} MB\n"
        "# plan {}, {} ranks on {} hosts; {} synchronisations a row, those of all rows alternate\n"
        "# Computing is emulated: {} ms an iteration, in which ranks wait and take no core.\n",
        version(), c.date, c.model.name, c.model.layers.size(), static_cast<double>(c.model.parameters()) * 4 / 1e6,
        c.chosen.name(), c.ranks.size(), c.ranks.host_count(), s.iterations, milliseconds(c.model.compute()));
    if (s.scale != 1) text += fmt::format("# Bytes, computing and the buckets below are scaled by {:.4g}.\n", s.scale);
    if (s.slower != 1) text += fmt::format("# Computing takes {:.4g} times as long as the model says.\n", s.slower);
    if (c.rounds_on_wire)
        text += fmt::format("# Gradients cross links in the plan's wire types, {} error feedback.\n",
                            s.error_feedback ? "with" : "without");
    text +=
        "# time: of an iteration, median of the maximum over ranks, and its middle half [ms]; bound: no schedule of\n"
        "# messages can be faster; exposed: after the backward pass; cpu: of a core, by the busiest rank; ratio: to\n"
        "# the first row, median by turns\n";
    text += columns_text(rows);
    const bool exact = std::all_of(rows.begin(), rows.end(), [](const auto& r) { return r.wrong.value_or(0) == 0; });
    return text + (!s.check ? "# gradients are not checked\n"
                   : exact  ? "# all gradients are right\n"
                            : "# WRONG gradients\n");
}

std::string to_json(const training_conditions& c, std::span<const training_row> rows) {
    const training_settings& s = c.asked;
    json all = head_of(c.ranks, c.chosen, c.date, s.place, s.ucx, s.warmup);
    all.update({{"training", c.model.name},
                {"gradients", c.model.layers.size()},
                {"bytes", c.model.parameters() * 4},
                {"scale", s.scale},
                {"slower", s.slower},
                {"compute_us", c.model.compute() * 1e6},
                {"compute", "emulated: ranks wait, and take no core"},
                {"rounds_on_wire", c.rounds_on_wire},
                {"error_feedback", s.error_feedback},
                {"results", json::array()}});
    for (const training_row& r : rows) all["results"].push_back(row_json(r));
    return all.dump(2) + '\n';
}

}  // namespace terrace::detail::bench
