#include "bench/modes.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>
#include <terrace/plan.hpp>
#include <terrace/version.hpp>

#include "base/units.hpp"
#include "bench/measure/processors.hpp"
#include "bench/report/figures.hpp"
#include "bench/report/report.hpp"
#include "bench/training/model.hpp"
#include "bench/training/trainer.hpp"
#include "plan/plan_access.hpp"
#include "planner/planner.hpp"
#include "schedule/compose.hpp"
#include "tools/common/output_file.hpp"
#include "tools/common/progress.hpp"
#include "tools/common/table.hpp"

namespace terrace::detail::bench {

namespace {

// The results of one variant. Times are those of an iteration, the maximum over ranks [s].
struct training_row {
    training_variant what;
    int buckets = 0;
    std::vector<double> times;           // by synchronisation: the mean of its iterations
    std::vector<double> ratios;          // by synchronisation: time over that of the first row
    std::vector<double> communications;  // time with buckets in flight
    std::vector<double> exposed;         // part of it after the backward pass
    double processor = 0;                // processor time of the busiest rank, over the elapsed time
    double bound = 0;                    // lower bound for any schedule of messages
    std::optional<std::int64_t> wrong;   // wrong elements over all ranks; nothing if unchecked
};

// The common data of all rows.
struct training_conditions {
    const world& ranks;
    const training_settings& asked;
    const plan& chosen;
    const training_model& model;  // scaled
    bool rounds_on_wire;          // options::rounds_on_wire
    std::string date;             // ISO 8601, UTC
};

using json = nlohmann::ordered_json;

// Returns "25 MiB", "all" or "automatic".
std::string bucket_text(std::int64_t bucket_bytes) {
    if (bucket_bytes == training_settings::all) return "all";
    if (bucket_bytes == training_settings::automatic) return "automatic";
    return bucket_bytes == 0 ? "0" : format_bytes(bucket_bytes);
}

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

json row_json(const training_row& r) {
    return {{"algorithm", r.what.algorithm},
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
            {"percent_processor", 100 * r.processor},
            {"wrong", r.wrong ? json(*r.wrong) : json(nullptr)}};
}

// A column, and its cell of each row.
struct column {
    const char* name;
    std::string (*cell)(const training_row& r);
    bool if_it_differs = false;  // only if cells differ; else above the table
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

// Loads plan and model and checks all input: throws on all ranks or on none.
std::pair<plan, training_model> load(const world& w, const training_settings& s) {
    return w.together([&] {
        if (w.first()) expect_replaceable(s.json_file, {s.plan_file, s.model}, s.force);
        plan p = plan::load(s.plan_file);
        check_runnable(data_of(p));
        if (!data_of(p).rules.contains(collective::allreduce))
            throw input_error(s.plan_file.string(), 0, 0, "the plan has no rules for allreduce; plan again");
        const bool built_in = std::ranges::count(built_in_models(), s.model) > 0;
        training_model model = built_in ? built_in_model(s.model) : read_model(s.model);
        return std::pair(std::move(p), scaled(std::move(model), s.scale, s.slower));
    });
}

std::vector<training_row> rows_of(const training_settings& s, const hierarchy& machine, const training_model& m) {
    const double bound = iteration_bound(m, sizeof(float), [&](std::int64_t bytes) { return limit(machine, bytes); });
    std::vector<training_row> rows;
    for (const std::string& algorithm : s.algorithms)
        for (const int communicators : s.communicators)
            for (const int every : s.every)
                for (const bool overlap : s.overlaps)
                    for (const std::int64_t bytes : s.buckets) {
                        training_row& r = rows.emplace_back();
                        r.what = {algorithm, bytes, overlap, every, communicators};
                        r.bound = ((every - 1) * m.compute() + bound) / every;
                    }
    return rows;
}

void measure(const world& w, const training_settings& s, std::vector<training_row>& rows,
             std::vector<std::unique_ptr<trainer>>& trainers, progress& shown) {
    const auto round = [&](int number, int of, const char* stage, auto&& take) {
        for (const std::size_t i : order_of_round(rows.size(), number)) {
            shown.show(
                [&] { return fmt::format("{} {} of {}, row {} of {}", stage, number + 1, of, i + 1, rows.size()); });
            take(i);
        }
    };
    std::vector<std::int64_t> wrong(rows.size());
    std::vector<double> processor(rows.size());
    if (s.check) round(0, 1, "check", [&](std::size_t i) { wrong[i] += trainers[i]->wrong_elements(); });
    for (int n = 0; n < s.warmup; ++n) round(n, s.warmup, "warm-up", [&](std::size_t i) { trainers[i]->run(); });
    for (int n = 0; n < s.iterations; ++n)
        round(n, s.iterations, "iteration", [&](std::size_t i) {
            const double before = own_processor_seconds();
            rows[i].times.push_back(trainers[i]->run());
            processor[i] += own_processor_seconds() - before;
            const gradient_times t = trainers[i]->statistics();
            rows[i].communications.push_back(t.communication);
            rows[i].exposed.push_back(t.exposed);
        });
    if (s.check) round(0, 1, "check", [&](std::size_t i) { wrong[i] += trainers[i]->wrong_elements(); });

    for (std::size_t i = 0; i < rows.size(); ++i) {
        training_row& r = rows[i];
        for (std::vector<double>* each : {&r.times, &r.communications, &r.exposed}) w.maximum(*each);
        double all = 0;
        for (const double t : r.times) all += t * r.what.every;
        r.processor = w.maximum(processor[i]) / all;
        r.ratios = paired_ratios(r.times, rows.front().times);
        r.buckets = trainers[i]->buckets();
        if (s.check) r.wrong = w.sum(wrong[i]);
    }
}

}  // namespace

int measure_training(const world& w, const training_settings& s) {
    if (!w.has_mpi() && !s.ucx) throw refusal("ranks without MPI take --transport ucx");
    const auto loaded = load(w, s);
    const plan& p = loaded.first;
    const training_model& model = loaded.second;
    options how = options::from_environment();
    how.place = s.place;
    hierarchy machine = data_of(p).machine;
    for (level& l : machine.levels)
        if (!how.rounds_on_wire) l.wire = wire_type::exact;
    std::vector<training_row> rows = rows_of(s, machine, model);
    const setting in{w, p, how, {}, s.ucx, false, nullptr, false, false};
    progress shown(w.first(), s.progress);
    std::vector<std::unique_ptr<trainer>> trainers;
    for (const training_row& r : rows) {
        shown.now(fmt::format("row {} of {}: connecting", trainers.size() + 1, rows.size()));
        trainers.push_back(w.together([&] { return std::make_unique<trainer>(in, model, r.what, s); }));
    }
    measure(w, s, rows, trainers, shown);
    shown.clear();
    const training_conditions under{w, s, p, model, how.rounds_on_wire, now_text()};
    say(w, to_text(under, rows));
    w.on_first([&] {
        if (!s.json_file.empty()) write_output(s.json_file, to_json(under, rows));
    });
    const bool right = std::all_of(rows.begin(), rows.end(), [](const auto& r) { return r.wrong.value_or(0) == 0; });
    return right ? success : something_wrong;
}

}  // namespace terrace::detail::bench
