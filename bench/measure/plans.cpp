#include "bench/measure/plans.hpp"

#include <terrace/version.hpp>

#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"

namespace terrace::detail::bench {

plan plan_of(std::string_view name, const plan& chosen, collective what) {
    if (name == "hierarchical") return chosen;
    plan_data r;
    if (name == "sequential") {
        r = data_of(chosen);
        for (rule& each : r.rules.at(what)) each.lanes = 1, each.chunk = 0;
    } else {
        r.name = chosen.name();
        r.made_by = version();
        r.machine = data_of(chosen).machine;
        r.rules[what] = rules_for(r.machine, name, what);
    }
    return to_plan(finished(std::move(r)));
}

plan plan_with(std::string_view name, const plan& chosen, collective what) {
    plan_data r = data_of(chosen);
    r.rules[what] = data_of(plan_of(name, chosen, what)).rules.at(what);
    return to_plan(finished(std::move(r)));
}

}  // namespace terrace::detail::bench
