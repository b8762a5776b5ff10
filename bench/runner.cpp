#include "bench/runner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/units.hpp"

namespace terrace::bench {

namespace {

constexpr double time_of_row = 1;  // [s]

int iterations_that_fit(double slowest) {
    const double fit = time_of_row / std::max(slowest, 1e-9);
    return static_cast<int>(std::clamp(fit, double{fewest_iterations}, double{most_iterations}));
}

}  // namespace

double row::quantile(double part) const {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    const double place = part * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

runner::runner(const world& w, const settings& s, std::vector<entrant> entrants)
    : world_(w), settings_(s), entrants_(std::move(entrants)), data_(s.type, w.rank(), w.size()), input_(s.end),
      output_(s.end) {}

double runner::time_call(contender& c, std::int64_t count, std::int64_t* wrong) {
    // Collectives in place destroy their input, so each call gets a fresh one; the others have it as warm in the cache.
    data_.fill(input_.data(), count);
    std::byte* result = c.in_place() ? input_.data() : output_.data();
    if (wrong && !c.in_place()) data_.spoil(result, count);

    world_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    c.run({input_.data(), result, count, settings_.type, settings_.op});
    const auto end = std::chrono::steady_clock::now();
    world_.barrier();  // what comes next takes cores from ranks that are not through yet

    if (wrong) *wrong += data_.wrong(result, count);
    return std::chrono::duration<double>(end - begin).count();
}

std::vector<row> runner::measure(std::int64_t count, progress& shown) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(size_of(settings_.type));
    std::vector<row> rows;
    for (const entrant& e : entrants_)
        rows.push_back({e.name, e.what->in_place(), e.what->describe(bytes), count, bytes, {}, {}});
    std::vector<std::int64_t> wrong(entrants_.size());

    // One call of each.
    const auto round = [&](bool checked, std::string_view what, int number, int of, auto&& take) {
        for (std::size_t i = 0; i < entrants_.size(); ++i) {
            shown.show([&] {
                return fmt::format("{}: {} {} of {}, {}", format_bytes(bytes), what, number + 1, of, entrants_[i].name);
            });
            take(i, time_call(*entrants_[i].what, count, checked && settings_.check ? &wrong[i] : nullptr));
        }
    };

    double slowest = 0;
    for (int i = 0; i < settings_.warmup; ++i) {
        slowest = 0;  // the first calls also make programs and connections
        round(i == 0, "warm-up", i, settings_.warmup, [&](std::size_t, double t) { slowest = std::max(slowest, t); });
    }
    const int iterations = settings_.iterations ? *settings_.iterations : iterations_that_fit(world_.maximum(slowest));
    for (int i = 0; i < iterations; ++i) {
        const bool checked = i == iterations - 1 || (i == 0 && settings_.warmup == 0);
        round(checked, "iteration", i, iterations, [&](std::size_t e, double t) { rows[e].times.push_back(t); });
    }

    for (std::size_t i = 0; i < rows.size(); ++i) {
        world_.maximum(rows[i].times);
        if (settings_.check) rows[i].wrong = world_.sum(wrong[i]);
    }
    return rows;
}

}  // namespace terrace::bench
