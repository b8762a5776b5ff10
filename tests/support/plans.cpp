#include "support/plans.hpp"

#include <algorithm>

#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

plan plan_of(const hierarchy& machine, const std::vector<stage>& stages, int lanes, std::int64_t chunk) {
    plan_data r;
    r.name = "test";
    r.machine = machine;
    rule only;
    only.lanes = lanes;
    only.chunk = chunk;
    only.at = 1 << 20;
    only.stages = stages;
    for (const collective what : all_collectives)
        if (able(stages, what)) r.rules[what] = {only};
    return to_plan(finished(std::move(r)));
}

plan plan_of_all_collectives(const hierarchy& machine) {
    plan_data r;
    r.name = "test";
    r.machine = machine;
    const auto rules = [&](mode how, const char* algorithm) {
        rule only;
        only.lanes = 2;
        only.chunk = 4096;
        only.at = 1 << 20;
        for (int l = 0; l < machine.depth(); ++l)
            only.stages.push_back({{l}, machine.shape.uniform_size(l).value_or(0), how, algorithm});
        return std::vector{only};
    };
    for (collective what : {collective::allreduce, collective::reduce_scatter, collective::allgather})
        r.rules[what] = rules(mode::scatter, "ring");
    for (collective what : {collective::broadcast, collective::reduce}) r.rules[what] = rules(mode::root, "tree");
    return to_plan(finished(std::move(r)));
}

}  // namespace terrace::detail::test
