#include "bench/measure/plans.hpp"

#include <memory>

#include <terrace/version.hpp>

#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"

namespace terrace::detail::bench {

namespace {

plan finished_plan(plan_data r) { return to_plan(finished(std::move(r))); }

}  // namespace

plan plan_of(std::string_view name, const plan& chosen, collective what) {
    if (name == "hierarchical") return chosen;
    if (name == "sequential") return in_one_piece(chosen, what);
    plan_data r;
    r.name = chosen.name();
    r.made_by = version();
    r.machine = data_of(chosen).machine;
    r.rules[what] = rules_for(r.machine, name, what);
    return finished_plan(std::move(r));
}

plan plan_with(std::string_view name, const plan& chosen, collective what) {
    plan_data r = data_of(chosen);
    r.rules[what] = data_of(plan_of(name, chosen, what)).rules.at(what);
    return finished_plan(std::move(r));
}

plan rule_alone(const plan& p, collective what, std::int64_t bytes) {
    plan_data r = data_of(p);
    rule only = r.choose(what, bytes);
    only.up_to = rule::no_bound;
    r.rules = {{what, {std::move(only)}}};
    return finished_plan(std::move(r));
}

plan in_one_piece(const plan& p, collective what) {
    plan_data r = data_of(p);
    for (rule& each : r.rules.at(what)) each.lanes = 1, each.chunk = 0;
    return finished_plan(std::move(r));
}

}  // namespace terrace::detail::bench
