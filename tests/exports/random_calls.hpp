#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include "plan/plan_data.hpp"
#include "support/dice.hpp"
#include "support/planner_machines.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

/// A call by a plan of one rule.
struct random_call {
    plan_data plan;
    collective what = collective::allreduce;
    std::int64_t bytes = 0;

    std::string name() const {
        const rule& r = plan.rules.at(what).front();
        return fmt::format("{} of {} bytes over {}: {}", to_string(what), bytes, text(plan.machine.shape),
                           describe(plan.machine, r.stages));
    }
};

/// Returns one of these collectives over an even or uneven machine or a torus, of up to 9 ranks, in up to 9 chunks.
inline random_call make_call(dice& d, std::span<const collective> collectives) {
    random_call call;
    call.what = collectives[d.below(collectives.size())];
    call.bytes = static_cast<std::int64_t>(1 + d.below(4000));
    call.plan.machine = with_random_nodes(random_machine(static_cast<int>(1 + d.below(9)), d), d);
    call.plan.rules[call.what] = {rule_of(random_stages(call.plan.machine, call.what, d),
                                          static_cast<int>(1 + d.below(3)), d.coin() ? 0 : call.bytes / 4 + 1)};
    return call;
}

}  // namespace terrace::detail::test
