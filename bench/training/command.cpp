#include "bench/modes.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "api/environment.hpp"
#include "bench/measure/processor_time.hpp"
#include "bench/report/figures.hpp"
#include "bench/training/bound.hpp"
#include "bench/training/report.hpp"
#include "bench/training/trainer.hpp"
#include "plan/plan_access.hpp"
#include "planner/planner.hpp"
#include "schedule/compose.hpp"
#include "tools/common/output_file.hpp"
#include "tools/common/progress.hpp"

namespace terrace::detail::bench {

namespace {

constexpr int wrong_results = 1;

training_model model_of(const training_settings& s) {
    const auto names = built_in_models();
    const bool built_in = std::find(names.begin(), names.end(), s.model) != names.end();
    return scaled(built_in ? built_in_model(s.model) : read_model(s.model), s.scale, s.slower);
}

// What can be wrong with the input shows here, on all ranks or none.
std::pair<plan, training_model> load(const world& w, const training_settings& s) {
    return w.together([&] {
        if (w.first()) expect_replaceable(s.json_file, {s.plan_file, s.model}, s.force);
        plan p = plan::load(s.plan_file);
        check_runnable(data_of(p));
        if (!data_of(p).rules.contains(collective::allreduce))
            throw input_error(s.plan_file.string(), 0, 0, "the plan has no rules for allreduce; plan again");
        return std::pair(std::move(p), model_of(s));
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
    return right ? fine : wrong_results;
}

}  // namespace terrace::detail::bench
