#include "planner/sensitivity.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/quiet_task.hpp"
#include "planner/choose.hpp"

namespace terrace::detail {

namespace {

// Times of a plan's rules on some machine, and of the best candidates at their sizes.
class rule_times {
public:
    explicit rule_times(const hierarchy& machine) : machine_(machine), prices_(machine_) {}

    double own(const rule& r, collective what) {
        const auto [known, is_new] = priced_.try_emplace({what, key_of(r.stages)});
        if (is_new) known->second = prices_.price_stages(r.stages, what);
        return known->second->time(static_cast<double>(r.at), r.lanes, r.chunk);
    }

    choice best(std::int64_t bytes, collective what) {
        const auto [list, is_new] = candidates_.try_emplace(what);
        if (is_new) list->second = search(prices_, what);
        return cheapest(machine_, list->second, bytes, 1).front();
    }

private:
    hierarchy machine_;
    pricer prices_;
    std::map<std::pair<collective, std::string>, std::optional<price>> priced_;  // rules of several sizes share stages
    std::map<collective, std::vector<priced_candidate>> candidates_;
};

// A rule of the plan, with the assumed figures.
struct assumed_rule {
    const rule* what;
    collective of;
    double time;
    double of_best;  // its time relative to the best candidate's; 1 without gains
};

// Compares the rules' times with a changed figure to those with the assumed one.
void compare(std::span<const assumed_rule> rules, const hierarchy& machine, bool gains, sensitivity& s) {
    rule_times changed(with_figure(machine, s.of, s.factor));
    for (const auto& [r, of, before, of_best] : rules) {
        const double after = changed.own(*r, of);
        if (before <= 0 || after <= 0) continue;  // there is only one rank
        const double time = after / before;
        if (std::max(time, 1 / time) > s.change()) s.time = time, s.time_of = of, s.time_at = r->at;
        if (!gains) continue;
        const choice now = changed.best(r->at, of);
        const double gain = after / now.how.time / of_best;
        if (gain > s.gain && now.what->what.stages != r->stages)
            s.gain = gain, s.gain_of = of, s.gain_at = r->at, s.choice = now.what->what.stages;
    }
}

}  // namespace

std::vector<sensitivity> sensitivities(const plan_data& plan, bool gains, std::optional<collective> of) {
    std::vector<sensitivity> all;
    for (const figure& f : figures_of(plan.machine))
        for (const double factor : {0.5, 2.0})
            if (f.assumed && (gains || f.is_time() == (factor > 1))) all.push_back({.of = f, .factor = factor});
    if (all.empty()) return all;
    rule_times assumed(plan.machine);
    std::vector<assumed_rule> rules;
    for (const auto& [what, list] : plan.rules) {
        if (of && *of != what) continue;
        for (const rule& r : list) {
            const double time = assumed.own(r, what);
            rules.push_back({&r, what, time, gains ? time / assumed.best(r.at, what).how.time : 1});
        }
    }
    for_each_on_all_cores(all.size(), [&](std::size_t i) { compare(rules, plan.machine, gains, all[i]); });
    std::ranges::stable_sort(all, std::greater(), &sensitivity::change);
    return all;
}

}  // namespace terrace::detail
