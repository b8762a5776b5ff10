#include "planner/sensitivity.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "planner/choose.hpp"

namespace terrace::detail {

namespace {

// The rules of a plan on some machine: their own times, and those of the best candidates at their sizes.
class rule_times {
public:
    explicit rule_times(const hierarchy& machine) : machine_(machine), prices_(machine_) {}

    double own(const rule& r, collective what) {
        const auto [known, is_new] = priced_.try_emplace({what, key_of(r.stages)});
        if (is_new) known->second = prices_.price_stages(r.stages, what);
        return known->second->time(static_cast<double>(r.at), r.lanes, r.chunk);
    }

    const choice& best(std::int64_t bytes, collective what) {
        const auto [list, is_new] = candidates_.try_emplace(what);
        if (is_new) list->second = search(prices_, what);
        const auto [known, is_first] = best_.try_emplace({what, bytes});
        if (is_first) known->second = cheapest(machine_, list->second, bytes, 1).front();
        return known->second;
    }

private:
    hierarchy machine_;
    pricer prices_;
    std::map<std::pair<collective, std::string>, std::optional<price>> priced_;  // rules of several sizes share stages
    std::map<collective, std::vector<priced_candidate>> candidates_;
    std::map<std::pair<collective, std::int64_t>, choice> best_;
};

// What a changed figure does to a plan, whose rules are priced with and without that.
sensitivity compared(const plan_data& plan, std::optional<collective> of, rule_times& assumed, rule_times& changed,
                     bool gains) {
    sensitivity s;
    for (const auto& [what, rules] : plan.rules) {
        if (of && *of != what) continue;
        for (const rule& r : rules) {
            const double before = assumed.own(r, what), after = changed.own(r, what);
            if (before <= 0 || after <= 0) continue;  // one rank alone
            const double time = after / before;
            if (std::max(time, 1 / time) > s.change()) s.time = time, s.time_of = what, s.time_at = r.at;
            if (!gains) continue;
            const choice& now = changed.best(r.at, what);
            const double gain = (after / now.how.time) / (before / assumed.best(r.at, what).how.time);
            if (gain > s.gain && now.what->what.stages != r.stages)
                s.gain = gain, s.gain_of = what, s.gain_at = r.at, s.choice = now.what->what.stages;
        }
    }
    return s;
}

}  // namespace

std::vector<sensitivity> sensitivities(const plan_data& plan, bool gains, std::optional<collective> of) {
    rule_times assumed(plan.machine);
    std::vector<sensitivity> all;
    for (const figure& f : figures_of(plan.machine))
        for (const double factor : {0.5, 2.0}) {
            if (!f.assumed || (!gains && f.is_time() != (factor > 1))) continue;
            rule_times changed(with_figure(plan.machine, f, factor));
            sensitivity& s = all.emplace_back(compared(plan, of, assumed, changed, gains));
            s.of = f, s.factor = factor;
        }
    std::ranges::stable_sort(all, std::greater(), &sensitivity::change);
    return all;
}

}  // namespace terrace::detail
