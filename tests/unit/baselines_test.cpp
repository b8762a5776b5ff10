// Flat ring, two-level and central.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "planner/planner.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::baselines_test {
namespace {

TEST(baseline, is_what_its_name_says) {
    EXPECT_EQ(describe(two_racks(), baseline(two_racks(), "flat-ring").stages), "node+rack+core:12 scatter ring");
    EXPECT_EQ(describe(two_racks(), baseline(two_racks(), "central").stages), "node+rack+core:12 root direct");
    const candidate two = baseline(two_racks(), "two-level");
    ASSERT_EQ(two.stages.size(), 2U);
    EXPECT_EQ(two.stages[0].how, mode::root);
    EXPECT_EQ(two.stages[0].levels, std::vector{0});
    EXPECT_EQ(two.stages[1].levels, (std::vector{1, 2}));
    EXPECT_EQ(two.stages[1].algorithm, "ring");
    EXPECT_EQ(baseline(network(4), "two-level").stages.size(), 1U);
}

TEST(baseline, exists_for_every_collective) {
    const auto text = [](const char* name, collective what) {
        return describe(two_racks(), baseline(two_racks(), name, what).stages);
    };
    for (const collective what : {collective::reduce_scatter, collective::allgather}) {
        EXPECT_EQ(text("flat-ring", what), "node+rack+core:12 scatter ring");
        EXPECT_EQ(text("two-level", what), "node:3 scatter shared_memory > rack+core:4 scatter ring");
        EXPECT_THROW(text("central", what), usage_error);
    }
    for (const collective what : {collective::broadcast, collective::reduce}) {
        EXPECT_EQ(baseline(two_racks(), "flat-ring", what).origin, "flat-chain");
        EXPECT_EQ(text("flat-ring", what), "node+rack+core:12 root chain");
        EXPECT_TRUE(text("two-level", what).ends_with(" > rack+core:4 root tree")) << text("two-level", what);
        EXPECT_EQ(text("central", what), "node+rack+core:12 root direct");
        EXPECT_THROW(rules_for(two_racks(), "staged", what), usage_error);
    }
}

// If nodes have several NICs, plans are no slower than the baselines that use all of them.
TEST(baseline, over_all_nics) {
    const auto text = [](const char* name, collective what) {
        return describe(two_racks(), baseline(two_racks(), name, what).stages);
    };
    EXPECT_EQ(text("flat-rings", collective::allreduce), "node+rack+core:12 scatter rings");
    EXPECT_EQ(text("flat-rings", collective::broadcast), "node+rack+core:12 root rings");
    EXPECT_EQ(text("two-level-nics", collective::allreduce), "node:3 scatter shared_memory > rack+core:4 scatter ring");
    hierarchy h = two_nodes();
    h.nics = shared_nics(std::vector(2, std::vector(4, 125e6 / 4)), h.node_sizes());
    for (const collective what : {collective::allreduce, collective::allgather}) {
        const std::vector<candidate> all = candidates(h, what);
        const std::vector<std::string> names{"flat-ring", "flat-rings", "two-level", "two-level-nics"};
        for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(all[i].origin, names[i]);
    }
    const auto time = [&](const char* name) { return tuned(h, baseline(h, name), 64 * mib).predicted; };
    EXPECT_LT(2 * time("flat-rings"), time("flat-ring"));
    EXPECT_LT(2 * time("two-level-nics"), time("two-level"));
    const plan_data plan = make_plan("m", h);
    for (const rule& r : plan.rules.at(collective::allreduce))
        EXPECT_LE(r.predicted, 1.02 * tuned(h, baseline(h, "flat-rings"), r.at).predicted);
}

// Baselines over all NICs are candidates only if nodes have several NICs.
TEST(baseline, of_plans_is_flat_ring_and_two_level) {
    for (const collective what : all_collectives) {
        const std::vector<candidate> all = candidates(two_racks(), what);
        const bool exchanged = row_of(what).exchange;
        EXPECT_EQ(all[0].origin, exchanged ? "direct" : row_of(what).has_root() ? "flat-chain" : "flat-ring");
        EXPECT_EQ(all[1].origin == "two-level", !exchanged) << to_string(what);
        EXPECT_NE(all[1].is_baseline(), exchanged) << to_string(what);
    }
}

}  // namespace
}  // namespace terrace::detail::test::baselines_test
