#include "planner/corrections.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "base/index.hpp"
#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "planner/pricer.hpp"

namespace terrace::detail {

namespace {

constexpr double largest = 8;            // factor
constexpr double weight = 0.002;         // of a figure's factor beside a size's time
constexpr double weight_of_kind = 0.02;  // of the ratio of two factors of one kind of figure, on levels of one fabric
constexpr double worth_saying = 0.03;    // ln of a factor
constexpr double usual = 0.2;            // ln(price / time); what is farther off counts in proportion, not squared
constexpr int most_steps = 20;

using matrix = std::vector<std::vector<double>>;

struct timed_rule {
    const rule* by;
    collective what;
    double bytes, time;
};

// The machine with a figure that is assumed no longer.
hierarchy known(hierarchy machine, const figure& f) {
    level& of = machine.levels[at(f.level)];
    if (f.what == figure::fact::bandwidth) of.bandwidth_assumed = false;
    if (f.what == figure::fact::latency) of.latency_assumed = false;
    if (f.what == figure::fact::overhead) of.overhead_assumed = false;
    return machine;
}

// The solution of equations, each with its right side in the end, whose matrix is positive definite.
std::vector<double> solved(matrix equations) {
    const std::size_t n = equations.size();
    for (std::size_t pivot = 0; pivot < n; ++pivot)
        for (std::size_t row = 0; row < n; ++row) {
            if (row == pivot) continue;
            const double factor = equations[row][pivot] / equations[pivot][pivot];
            for (std::size_t column = pivot; column <= n; ++column)
                equations[row][column] -= factor * equations[pivot][column];
        }
    std::vector<double> solution(n);
    for (std::size_t row = 0; row < n; ++row) solution[row] = equations[row][n] / equations[row][row];
    return solution;
}

// The weights of products of two factors' logarithms: figures stay as they are, or change with those of their kind.
matrix weights(const hierarchy& machine, const std::vector<figure>& figures) {
    matrix made(figures.size(), std::vector<double>(figures.size()));
    for (std::size_t f = 0; f < figures.size(); ++f) {
        made[f][f] += weight;
        for (std::size_t g = 0; g < f; ++g) {
            const figure &a = figures[f], &b = figures[g];
            if (a.what != b.what || machine.levels[at(a.level)].medium != machine.levels[at(b.level)].medium) continue;
            made[f][f] += weight_of_kind, made[g][g] += weight_of_kind;
            made[f][g] -= weight_of_kind, made[g][f] -= weight_of_kind;
        }
    }
    return made;
}

// Whether shapers let a good part of a vector pass at once, of which prices know nothing.
bool passes_free(double bytes, double burst) {
    return !policy.in_a_row(bytes, burst) && policy.short_in_bursts(bytes, burst);
}

class fitting {
public:
    fitting(const hierarchy& machine, std::vector<timed_rule> rules)
        : machine_(machine),
          rules_(std::move(rules)),
          figures_(figures_of(machine)),
          weights_(weights(machine, figures_)),
          logs_(figures_.size()) {}

    // Levenberg and Marquardt's method, in logarithms: prices are nearly straight lines there.
    void run() {
        for (int n = 0; n < most_steps && step(); ++n) {}
    }

    std::vector<double> ratios() const {
        const hierarchy machine = corrected();
        pricer prices(machine, patterns_);
        std::vector<double> all;
        for (const timed_rule& r : rules_)
            all.push_back(r.time / prices.price_stages(r.by->stages, r.what).time(r.bytes, r.by->lanes, r.by->chunk));
        return all;
    }

    std::vector<correction> corrections() const {
        std::vector<correction> all;
        for (std::size_t f = 0; f < logs_.size(); ++f)
            if (std::abs(logs_[f]) > worth_saying) all.push_back({figures_[f], std::exp(logs_[f])});
        return all;
    }

    void leave_small_ones_out() {
        for (double& log : logs_)
            if (std::abs(log) <= worth_saying) log = 0;
    }

    hierarchy corrected() const {
        hierarchy machine = machine_;
        for (std::size_t f = 0; f < logs_.size(); ++f)
            if (logs_[f] != 0)
                machine = known(with_figure(std::move(machine), figures_[f], std::exp(logs_[f])), figures_[f]);
        return machine;
    }

private:
    // ln(price / time) of each size.
    std::vector<double> errors() const {
        std::vector<double> all = ratios();
        for (double& each : all) each = -std::log(each);
        return all;
    }

    double misfit() const {
        double sum = 0;
        for (const double e : errors()) sum += std::abs(e) < usual ? e * e : usual * (2 * std::abs(e) - usual);
        for (std::size_t f = 0; f < logs_.size(); ++f) sum += logs_[f] * pull(f, logs_);
        return sum;
    }

    // How the weights pull at a factor's logarithm.
    double pull(std::size_t f, const std::vector<double>& logs) const {
        return std::inner_product(logs.begin(), logs.end(), weights_[f].begin(), 0.0);
    }

    // Returns false where no step makes the misfit smaller.
    bool step() {
        constexpr double small = 0.01, longest = 1, enough = 1e-4;
        const std::vector<double> now = errors(), before = logs_;
        const std::size_t n = logs_.size();
        matrix slopes;
        for (std::size_t f = 0; f < n; ++f) {
            logs_[f] += small;
            slopes.push_back(errors());
            logs_[f] = before[f];
            for (std::size_t i = 0; i < now.size(); ++i) slopes[f][i] = (slopes[f][i] - now[i]) / small;
        }
        std::vector<double> counted(now);  // by the slope of what misfit() adds up
        for (double& e : counted) e = std::clamp(e, -usual, usual);
        matrix normal(n, std::vector<double>(n + 1));
        for (std::size_t f = 0; f < n; ++f) {
            for (std::size_t g = 0; g < n; ++g)
                normal[f][g] =
                    std::inner_product(slopes[f].begin(), slopes[f].end(), slopes[g].begin(), weights_[f][g]);
            normal[f][n] = -std::inner_product(slopes[f].begin(), slopes[f].end(), counted.begin(), pull(f, before));
        }
        const double misfit_before = misfit();
        for (double damping = 0; damping < 1e4; damping = damping == 0 ? 0.1 : 10 * damping) {
            matrix damped = normal;
            for (std::size_t f = 0; f < n; ++f) damped[f][f] += damping * std::max(normal[f][f], 1.0);
            const std::vector<double> way = solved(std::move(damped));
            double length = 0;
            for (const double w : way) length = std::max(length, std::abs(w));
            for (std::size_t f = 0; f < n; ++f)
                logs_[f] = std::clamp(before[f] + way[f] * std::min(1.0, longest / length), -std::log(largest),
                                      std::log(largest));
            const double after = misfit();
            if (after < misfit_before) return misfit_before - after > enough * misfit_before;
        }
        logs_ = before;
        return false;
    }

    const hierarchy& machine_;
    std::vector<timed_rule> rules_;
    std::vector<figure> figures_;
    matrix weights_;
    std::vector<double> logs_;  // of factors
    std::shared_ptr<pattern_book> patterns_ = std::make_shared<pattern_book>();
};

}  // namespace

corrected_machine correct(const hierarchy& machine, const std::vector<profile>& profiles, double burst) {
    corrected_machine result{.machine = machine};
    std::vector<timed_rule> rules;
    for (const profile& p : profiles) {
        if (p.plan.machine.shape != machine.shape) {
            ++result.others;
            continue;
        }
        for (const profiled_call& c : p.calls)
            if (passes_free(static_cast<double>(c.bytes), burst)) ++result.in_bursts;
            else rules.push_back({&p.plan.choose(c.what, c.bytes), c.what, static_cast<double>(c.bytes), c.time});
    }
    result.sizes = static_cast<int>(rules.size());
    if (rules.empty()) return result;
    fitting fit(machine, std::move(rules));
    const std::vector<double> before = fit.ratios();
    fit.run();
    fit.leave_small_ones_out();
    const std::vector<double> after = fit.ratios();
    result.machine = fit.corrected();
    result.corrections = fit.corrections();
    result.least_before = std::ranges::min(before), result.most_before = std::ranges::max(before);
    result.least = std::ranges::min(after), result.most = std::ranges::max(after);
    return result;
}

}  // namespace terrace::detail
