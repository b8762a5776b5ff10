#include "planner/sensitivity.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "planner/tuning.hpp"

namespace terrace::detail {

namespace {

constexpr double factors[] = {0.5, 2};

struct best_candidate {
    double time = 0;
    std::vector<stage> stages;
};

// The rules of a plan on some machine: their own times, and those of the best candidates at their sizes.
class rule_times {
public:
    rule_times(const hierarchy& machine, const std::shared_ptr<pattern_book>& patterns)
        : machine_(machine), prices_(machine_, patterns) {}

    double own(const rule& r, collective what) {
        const auto [known, is_new] = priced_.try_emplace({what, key_of(r.stages)});
        if (is_new) known->second = prices_.price_stages(r.stages, what);
        return known->second->time(static_cast<double>(r.at), r.lanes, r.chunk);
    }

    best_candidate best(std::int64_t bytes, collective what) {
        const auto [list, is_new] = candidates_.try_emplace(what);
        if (is_new) list->second = search(prices_, what);
        const priced_candidate* found = nullptr;
        double least = 0;
        for (const priced_candidate& c : list->second) {
            if (found != nullptr && c.cost.at_least(static_cast<double>(bytes)) >= least) continue;
            const double time = tune(machine_, c, bytes).time;
            if (found != nullptr && time >= least) continue;
            found = &c;
            least = time;
        }
        return {least, found->what.stages};
    }

private:
    hierarchy machine_;
    pricer prices_;
    std::map<std::pair<collective, std::string>, std::optional<price>> priced_;  // rules of several sizes share stages
    std::map<collective, std::vector<priced_candidate>> candidates_;
};

class study {
public:
    study(const plan_data& plan, std::span<const collective> of, bool finds_gains)
        : plan_(plan), of_(of), finds_gains_(finds_gains), assumed_(plan.machine, patterns_) {}

    std::vector<sensitivity> run() {
        std::vector<sensitivity> all;
        for (const figure& f : assumed_figures(plan_.machine))
            for (const double factor : factors)
                if (finds_gains_ || is_worse(f, factor)) all.push_back(of(f, factor));
        std::ranges::stable_sort(all, std::greater(), &sensitivity::change);
        return all;
    }

private:
    static bool is_worse(const figure& f, double factor) {
        const bool is_time = f.what == figure::fact::latency || f.what == figure::fact::overhead;
        return is_time == (factor > 1);
    }

    sensitivity of(const figure& f, double factor) {
        rule_times changed(with_figure(plan_.machine, f, factor), patterns_);
        sensitivity s{.of = f, .factor = factor};
        for (const collective what : of_)
            for (const rule& r : plan_.rules.at(what)) {
                const double before = assumed_.own(r, what), after = changed.own(r, what);
                if (before <= 0 || after <= 0) continue;  // one rank alone
                const double time = after / before;
                if (std::max(time, 1 / time) > s.change()) s.time = time, s.time_of = what, s.time_at = r.at;
                if (!finds_gains_) continue;
                best_candidate now = changed.best(r.at, what);
                const double gain = (after / now.time) / (before / best_time(r.at, what));
                if (gain > s.gain && now.stages != r.stages)
                    s.gain = gain, s.gain_of = what, s.gain_at = r.at, s.choice = std::move(now.stages);
            }
        return s;
    }

    double best_time(std::int64_t bytes, collective what) {
        const auto [entry, is_new] = best_.try_emplace({what, bytes});
        if (is_new) entry->second = assumed_.best(bytes, what).time;
        return entry->second;
    }

    const plan_data& plan_;
    std::span<const collective> of_;
    bool finds_gains_;
    std::shared_ptr<pattern_book> patterns_ = std::make_shared<pattern_book>();  // the same for all machines
    rule_times assumed_;
    std::map<std::pair<collective, std::int64_t>, double> best_;
};

}  // namespace

std::vector<sensitivity> time_sensitivities(const plan_data& plan, std::span<const collective> of) {
    return study(plan, of, false).run();
}

std::vector<sensitivity> sensitivities(const plan_data& plan) {
    std::vector<collective> all;
    for (const auto& [what, rules] : plan.rules) all.push_back(what);
    return study(plan, all, true).run();
}

}  // namespace terrace::detail
