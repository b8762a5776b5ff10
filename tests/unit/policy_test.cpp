// No number of the policy is tuned: with half or twice its value, choices on random machines are as good as before.
// TERRACE_TEST_ALL=1 tests more machines.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "planner/simulate/simulate.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::policy_test {
namespace {

struct number {
    std::string name;
    void (*scale)(planner_policy&, double);
};

template <auto member>
void scale(planner_policy& p, double factor) {
    using value = std::remove_reference_t<decltype(p.*member)>;
    p.*member = static_cast<value>(static_cast<double>(p.*member) * factor);
}
// Scales the difference of a factor from 1.
template <auto member>
void scale_difference(planner_policy& p, double factor) {
    p.*member = 1 + (p.*member - 1) * factor;
}

const std::vector<number> numbers{{"smallest_size", scale<&planner_policy::smallest_size>},
                                  {"largest_size", scale<&planner_policy::largest_size>},
                                  {"core_reduces", scale<&planner_policy::core_reduces>},
                                  {"gpu_reduces", scale<&planner_policy::gpu_reduces>},
                                  {"flag_of_latency", scale<&planner_policy::flag_of_latency>},
                                  {"message_length", scale<&planner_policy::message_length>},
                                  {"message_range", scale<&planner_policy::message_range>},
                                  {"shard_length", scale<&planner_policy::shard_length>},
                                  {"lanes", scale<&planner_policy::lanes>},
                                  {"many_lanes", scale<&planner_policy::many_lanes>},
                                  {"most_lanes", scale<&planner_policy::most_lanes>},
                                  {"worth_it", scale_difference<&planner_policy::worth_it>},
                                  {"most_candidates", scale<&planner_policy::most_candidates>},
                                  {"share_parts", scale<&planner_policy::share_parts>},
                                  {"most_route_shares", scale<&planner_policy::most_route_shares>},
                                  {"most_exchanges_at_once", scale<&planner_policy::most_exchanges_at_once>},
                                  {"equal", scale_difference<&planner_policy::equal>},
                                  {"most_trials", scale<&planner_policy::most_trials>},
                                  {"most_simulated", scale<&planner_policy::most_simulated>},
                                  {"parts_of_work", scale<&planner_policy::parts_of_work>},
                                  {"ratio_holds", scale<&planner_policy::ratio_holds>},
                                  {"simulated_chunks", scale<&planner_policy::simulated_chunks>},
                                  {"told_apart", scale<&planner_policy::told_apart>},
                                  {"large_group", scale<&planner_policy::large_group>},
                                  {"largest_group", scale<&planner_policy::largest_group>}};

struct call {
    collective what;
    std::int64_t bytes;
};

// Returns the simulated time of each call by a plan made with `planned_by` [s]. Simulations use the usual policy.
std::vector<double> times(const hierarchy& machine, const std::vector<call>& calls, const planner_policy& planned_by) {
    const planner_policy own = policy;
    policy = planned_by;
    const plan_data plan = make_plan("x", machine);
    policy = own;
    std::vector<double> all;
    for (const call& c : calls)
        all.push_back(
            simulate(machine, plan.choose(c.what, c.bytes), c.what, c.bytes, {.slot_bytes = slot_bytes(plan)}).time);
    return all;
}

TEST(policy, half_and_twice_each_number_choose_as_well) {
    if (slowness > 1) GTEST_SKIP() << "with sanitizers it takes minutes";
    dice d(46);
    const int machines = share("random machines whose choice is looked at with other numbers", 13, 1);
    std::vector<int> changed(2 * numbers.size());
    int calls = 0;
    for (int m = 0; m < machines;) {
        const hierarchy machine = random_racks(d);
        if (machine.ranks() > 16) continue;
        ++m;
        std::vector<call> drawn;
        for (int n = 0; n < 8; ++n)
            drawn.push_back(
                {d.pick(std::vector(all_collectives.begin(), all_collectives.end())), std::int64_t{64} << d.below(17)});
        calls += 8;
        const std::vector<double> usual = times(machine, drawn, policy);
        for (std::size_t v = 0; v < changed.size(); ++v) {
            planner_policy other = policy;
            numbers[v / 2].scale(other, v % 2 == 0 ? 0.5 : 2);
            const std::vector<double> now = times(machine, drawn, other);
            for (std::size_t n = 0; n < now.size(); ++n)
                changed[v] += std::max(now[n] / usual[n], usual[n] / now[n]) > 1.05;
        }
    }
    for (std::size_t v = 0; v < changed.size(); ++v) {
        if (changed[v] > 0)
            fmt::print("{} {}: {} of {} calls change by more than 5 %\n", v % 2 == 0 ? "half" : "twice",
                       numbers[v / 2].name, changed[v], calls);
        EXPECT_LE(changed[v], std::max(1, calls * 5 / 100)) << numbers[v / 2].name;
    }
}

}  // namespace
}  // namespace terrace::detail::test::policy_test
