// Processors: rates, flags, and cores that ranks share.

#include <vector>

#include <gtest/gtest.h>

#include "planner/devices.hpp"
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

// GPUs do not copy through memory that processor cores share.
TEST(devices, through_memory_is_for_cores_of_a_node) {
    EXPECT_TRUE(through_memory(two_nodes(), 0));
    EXPECT_FALSE(through_memory(two_nodes(), 1));
    EXPECT_FALSE(through_memory(gpu_nodes(2, {}, {}), 0));
}

// A flag is seen after a third of a message's start-up, and after a turn of the other ranks on the core.
TEST(devices, flags_wait_for_turns) {
    hierarchy h = two_nodes();
    EXPECT_EQ(turn_time(h), 0);
    EXPECT_DOUBLE_EQ(flag_time(h, 0), h.levels[0].latency / 3);
    h.processors.cores = 2;
    const double turn = (8.0 / 2 - 1) * h.levels[1].overhead;  // the largest o of the machine
    EXPECT_DOUBLE_EQ(turn_time(h), turn);
    EXPECT_DOUBLE_EQ(flag_time(h, 0), h.levels[0].latency / 3 + turn);
}

// Six ranks of which each sends a message to every other, or one pair that exchanges one after another.
TEST(devices, cores_that_all_ranks_share_are_busy_with_the_messages_of_all) {
    const auto time = [](int ranks, const char* by, int cores) {
        hierarchy h = network(ranks);
        h.processors = {1e18, cores};
        return predict(h, {{{0}, ranks, mode::replicate, by}}, 8, 1, 0).time;
    };
    const double alpha = 10e-6, o = 2e-6;
    EXPECT_NEAR(time(6, "direct", 0), alpha + 5 * o, 1e-7);
    EXPECT_NEAR(time(6, "direct", 6), alpha + 5 * o, 1e-7);
    EXPECT_NEAR(time(6, "direct", 2), alpha + 2 * o + 60 * o / 2, 1e-7);
    EXPECT_NEAR(time(6, "direct", 1), alpha + 5 * o + 60 * o, 1e-7);
    EXPECT_NEAR(time(2, "direct", 2), alpha + o, 1e-7);
    EXPECT_NEAR(time(4, "doubling", 1), 2 * (alpha + 3 * o) + 16 * o, 1e-7);
}

// Two nodes of two ranks on one core, of which each waits three times for a turn of the three others: for its peer in
// memory on the way up and down, and for the other node. A turn takes what a message does.
TEST(devices, who_waits_on_shared_cores_waits_for_the_turns_of_others) {
    hierarchy h = machine(tree::uniform(std::vector{2, 2}));
    for (level& l : h.levels) l.overhead = 0;
    h.levels[0].medium = fabric::shm;
    h.levels[1].overhead = 2e-6;
    const std::vector<stage> stages{{{0}, 2, mode::root, "", provider::shared_memory},
                                    {{1}, 2, mode::replicate, "direct"}};
    const auto time = [&](int cores) {
        h.processors = {1e18, cores};
        return predict(h, stages, 8, 1, 0).time;
    };
    const double messages = 4 * 2e-6 - 2e-6;  // of all ranks, where a rank with a core of its own exchanges one
    EXPECT_NEAR(time(1) - time(0), 3 * 3 * 2e-6 + messages, 1e-7);
}

TEST(devices, a_wait_costs_a_part_of_a_message_on_one_of_the_shared_cores) {
    hierarchy h = network(4);
    h.levels[0].overhead = 30e-6;
    EXPECT_EQ(wait_time(h), 0) << "cores of their own";
    h.processors.cores = 2;
    EXPECT_DOUBLE_EQ(wait_time(h), policy.wait_of_overhead * 15e-6);
}

// In lanes a chunk ends as often as the shared cores have done one.
TEST(devices, shared_cores_hold_lanes_up) {
    hierarchy h = network(4);
    const std::vector<stage> ring{{{0}, 4, mode::scatter, "ring"}};
    const double apart = predict(h, ring, 64 * mib, 2, 64 << 10).time;
    h.levels[0].overhead = 200e-6;
    h.processors.cores = 1;
    const double chunks = 1024, messages = 2 * 4 * 6;
    EXPECT_GT(predict(h, ring, 64 * mib, 2, 64 << 10).time, chunks * messages * 200e-6);
    EXPECT_LT(apart, chunks * messages * 200e-6);
}

}  // namespace
}  // namespace terrace::detail::test::devices_test
