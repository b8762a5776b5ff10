#include "planner/corrections.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/index.hpp"
#include "planner/pricer.hpp"

namespace terrace::detail {

namespace {

constexpr double largest = 8;             // largest factor of a correction
constexpr double weight = 0.002;          // of ln(factor)^2, relative to a size's error
constexpr double weight_of_kind = 0.02;   // of ln(ratio)^2 of the factors of two bandwidths of one fabric
constexpr double worth_saying = 0.1;      // smallest |ln(factor)| that is reported: prices are no better
constexpr double usual = 0.2;             // |ln(price / time)| above which errors count linearly, not squared
constexpr double least_influence = 0.25;  // part of a size's time above which the size depends on a figure
constexpr int most_steps = 20;

using verdict = judged_figures::verdict;
using matrix = std::vector<std::vector<double>>;

struct timed_rule {
    const rule* by;
    collective what;
    double bytes, time;
};

// Returns the figures of a machine, grouped as calls can correct them. Calls do not show which start-up they waited
// for, since small calls of a plan all have about the same number of each.
std::vector<judged_figures> unknowns_of(const hierarchy& machine) {
    std::vector<judged_figures> startups, others;
    for (const figure& f : figures_of(machine)) {
        const auto of_fabric =
            std::ranges::find(startups, machine.levels[at(f.level)].medium,
                              [&](const judged_figures& u) { return machine.levels[at(u.of.front().level)].medium; });
        if (!f.is_time()) others.push_back({{f}});
        else if (of_fabric == startups.end()) startups.push_back({{f}});
        else of_fabric->of.push_back(f);
    }
    startups.insert(startups.end(), others.begin(), others.end());
    return startups;
}

// Solves a system of equations with a positive definite matrix. Each row ends with its right side.
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

// Returns the weights of products of two factors' logarithms. They keep figures unchanged, and bandwidths of one fabric
// equal.
matrix weights(const hierarchy& machine, const std::vector<judged_figures>& unknowns) {
    matrix made(unknowns.size(), std::vector<double>(unknowns.size()));
    const auto is_rate = [](const figure& f) { return f.what == figure::fact::bandwidth; };
    for (std::size_t f = 0; f < unknowns.size(); ++f) {
        made[f][f] += weight;
        for (std::size_t g = 0; g < f; ++g) {
            const figure &a = unknowns[f].of.front(), &b = unknowns[g].of.front();
            if (!is_rate(a) || !is_rate(b) || machine.levels[at(a.level)].medium != machine.levels[at(b.level)].medium)
                continue;
            made[f][f] += weight_of_kind, made[g][g] += weight_of_kind;
            made[f][g] -= weight_of_kind, made[g][f] -= weight_of_kind;
        }
    }
    return made;
}

class fitting {
public:
    fitting(const hierarchy& machine, std::vector<timed_rule> rules)
        : machine_(machine),
          rules_(std::move(rules)),
          unknowns_(unknowns_of(machine)),
          weights_(weights(machine, unknowns_)),
          logs_(unknowns_.size()) {}

    // Fits the figures. Figures that the times do not determine are excluded, and the others fitted again.
    void run() {
        do {
            choose_sizes();
            for (int n = 0; n < most_steps && step(); ++n) {}
        } while (leave_undetermined());
        for (std::size_t u = 0; u < logs_.size(); ++u) {
            if (std::abs(logs_[u]) <= worth_saying) logs_[u] = 0;
            else unknowns_[u].what = verdict::corrected, unknowns_[u].factor = std::exp(logs_[u]);
        }
    }

    void report(corrected_machine& found) const {
        found.machine = corrected();
        found.judged = unknowns_;
        found.sizes = static_cast<int>(std::ranges::count(used_, true));
        found.unknown = static_cast<int>(used_.size()) - found.sizes;
        if (found.sizes == 0) return;
        std::tie(found.least_before, found.most_before) = extremes(machine_);
        std::tie(found.least, found.most) = extremes(found.machine);
    }

private:
    hierarchy corrected() const {
        hierarchy machine = machine_;
        for (std::size_t u = 0; u < logs_.size(); ++u)
            if (logs_[u] != 0)
                for (const figure& f : unknowns_[u].of)
                    machine = with_figure(std::move(machine), f, std::exp(logs_[u]));
        return machine;
    }

    // Returns time / price of each size.
    std::vector<double> ratios(const hierarchy& machine) const {
        pricer prices(machine);
        std::vector<double> all;
        for (const timed_rule& r : rules_)
            all.push_back(r.time / prices.price_stages(r.by->stages, r.what).time(r.bytes, r.by->lanes, r.by->chunk));
        return all;
    }

    // Returns the smallest and the largest of these ratios among the sizes that are used.
    std::pair<double, double> extremes(const hierarchy& machine) const {
        const std::vector<double> all = ratios(machine);
        double least = std::numeric_limits<double>::infinity(), most = 0;
        for (std::size_t i = 0; i < all.size(); ++i)
            if (used_[i]) least = std::min(least, all[i]), most = std::max(most, all[i]);
        return {least, most};
    }

    bool is_left(std::size_t unknown) const { return unknowns_[unknown].what != verdict::as_written; }

    // Returns ln(price / time) of each size.
    std::vector<double> errors() const {
        std::vector<double> all = ratios(corrected());
        for (double& each : all) each = -std::log(each);
        return all;
    }

    // Returns the part of each size's time due to each unknown: the change of ln(price) with the logarithm of its
    // factor. Computed from both sides: only the slower of two links counts, but both do if they are alike.
    matrix slopes() {
        constexpr double small = 0.01;
        matrix all;
        for (double& log : logs_) {
            const double before = std::exchange(log, log + small);
            std::vector<double>& slope = all.emplace_back(errors());
            log = before - small;
            const std::vector<double> less = errors();
            log = before;
            for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = (slope[i] - less[i]) / (2 * small);
        }
        return all;
    }

    // Excludes sizes if much of their time is due to excluded figures.
    void choose_sizes() {
        const matrix all = slopes();
        for (std::size_t i = 0; i < rules_.size(); ++i) {
            double left = 0;
            for (std::size_t u = 0; u < all.size(); ++u)
                if (is_left(u)) left += std::abs(all[u][i]);
            used_[i] = left < least_influence;
        }
    }

    // Returns the part of a size's time due to an unknown and to the unknowns that change together with it.
    double influence(const matrix& slope, std::size_t unknown, std::size_t size) const {
        double sum = 0;
        for (std::size_t u = 0; u < slope.size(); ++u)
            if (weights_[unknown][u] != 0) sum += std::abs(slope[u][size]);
        return sum;
    }

    // Excludes unknowns that no size depends on. If there are none, excludes the first unknown about which sizes
    // disagree, and those that change together with it. Returns false if it excludes none.
    bool leave_undetermined() {
        const matrix slope = slopes();
        const std::vector<double> error = errors();
        std::vector<int> uses(slope.size()), odd(slope.size());
        for (std::size_t u = 0; u < slope.size(); ++u)
            for (std::size_t i = 0; i < error.size(); ++i)
                if (used_[i] && influence(slope, u, i) >= least_influence)
                    ++uses[u], odd[u] += std::abs(error[i]) > usual ? 1 : 0;
        bool any = false;
        const auto leave = [&](std::size_t u, verdict why) { unknowns_[u].what = why, logs_[u] = 0, any = true; };
        for (std::size_t u = 0; u < slope.size(); ++u)
            if (!is_left(u) && uses[u] == 0) leave(u, verdict::small_part);
        for (std::size_t u = 0; u < slope.size() && !any; ++u)
            if (!is_left(u) && 2 * odd[u] > uses[u])
                for (std::size_t other = 0; other < slope.size(); ++other)
                    if (weights_[u][other] != 0) leave(other, verdict::disagreeing);
        return any;
    }

    double misfit() const {
        const std::vector<double> error = errors();
        double sum = 0;
        for (std::size_t i = 0; i < error.size(); ++i)
            if (const double e = std::abs(error[i]); used_[i]) sum += e < usual ? e * e : usual * (2 * e - usual);
        for (std::size_t u = 0; u < logs_.size(); ++u) sum += logs_[u] * pull(u, logs_);
        return sum;
    }

    // Returns the gradient of the weights at a factor's logarithm.
    double pull(std::size_t u, const std::vector<double>& logs) const {
        return std::inner_product(logs.begin(), logs.end(), weights_[u].begin(), 0.0);
    }

    // Takes a step of the Levenberg-Marquardt method, in logarithms, where prices are nearly linear. Returns false if
    // no step makes the misfit much smaller.
    bool step() {
        constexpr double longest = 1, enough = 1e-4;
        const std::vector<double> error = errors(), before = logs_;
        const std::size_t n = logs_.size();
        matrix slope = slopes();
        for (std::size_t u = 0; u < n; ++u)
            for (std::size_t i = 0; i < error.size(); ++i)
                if (is_left(u) || !used_[i]) slope[u][i] = 0;
        matrix normal(n, std::vector<double>(n + 1));
        for (std::size_t f = 0; f < n; ++f) {
            for (std::size_t g = 0; g < n; ++g)
                normal[f][g] = std::inner_product(slope[f].begin(), slope[f].end(), slope[g].begin(), weights_[f][g]);
            normal[f][n] = -pull(f, before);
            for (std::size_t i = 0; i < error.size(); ++i)  // slope of the sum in misfit()
                normal[f][n] -= slope[f][i] * std::clamp(error[i], -usual, usual);
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
    std::vector<judged_figures> unknowns_;
    matrix weights_;
    std::vector<double> logs_;  // ln of each factor
    std::vector<bool> used_ = std::vector<bool>(rules_.size(), true);
};

}  // namespace

corrected_machine correct(const hierarchy& machine, const std::vector<profile>& profiles) {
    corrected_machine result{.machine = machine};
    std::vector<timed_rule> rules;
    for (const profile& p : profiles) {
        if (p.plan.machine.shape != machine.shape) {
            ++result.others;
            continue;
        }
        for (const profiled_call& c : p.calls)
            rules.push_back({&p.plan.choose(c.what, c.bytes), c.what, static_cast<double>(c.bytes), c.time});
    }
    fitting fit(machine, std::move(rules));
    fit.run();
    fit.report(result);
    return result;
}

}  // namespace terrace::detail
