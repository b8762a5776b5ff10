// Processors: rates and flags.

#include <vector>

#include <gtest/gtest.h>

#include "planner/figures.hpp"
#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::devices_test {
namespace {

TEST(devices, have_rates_of_their_own_or_those_of_the_policy) {
    hierarchy h = network(2);
    EXPECT_DOUBLE_EQ(reduce_time(h), 1 / policy.core_reduces);
    EXPECT_DOUBLE_EQ(access_time(h), reduce_time(h) / 3);
    h.processors.reduction = 5e9;
    EXPECT_DOUBLE_EQ(reduce_time(h), 1 / 5e9);
    const hierarchy gpus = gpu_nodes(2, {}, {});
    EXPECT_TRUE(on_gpus(gpus));
    EXPECT_FALSE(on_gpus(h));
    hierarchy assumed = gpus;
    assumed.processors.reduction = 0;
    EXPECT_DOUBLE_EQ(reduce_time(assumed), 1 / policy.gpu_reduces);
}

// GPUs do not copy through the memory that processor cores share.
TEST(devices, through_memory_is_for_cores_of_a_node) {
    EXPECT_TRUE(through_memory(two_nodes(), 0));
    EXPECT_FALSE(through_memory(two_nodes(), 1));
    EXPECT_FALSE(through_memory(gpu_nodes(2, {}, {}), 0));
}

TEST(devices, flags_are_seen_after_a_third_of_a_start_up) {
    const hierarchy h = two_nodes();
    EXPECT_DOUBLE_EQ(flag_time(h, 0), h.levels[0].latency / 3);
}

}  // namespace
}  // namespace terrace::detail::test::devices_test
