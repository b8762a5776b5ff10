// Stages in shared memory: what the price reads off schedule/stage_work.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "planner/devices.hpp"
#include "planner/node_memory.hpp"
#include "planner/planner.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::node_memory_test {
namespace {

// Of 6 members that own a unit each, the first two have a link of their own to the others.
TEST(node_memory, links_carry_what_one_side_reads_of_the_other) {
    const member_set inside{2, 2. / 6}, outside{4, 4. / 6};
    const auto round = [](mode how, bool down) { return memory_work(how, down).round(0); };
    // Each reads its own shard of everybody, or everybody's shard.
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::scatter, false), inside, outside), 2 * 4. / 6);
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::scatter, false), outside, inside), 4 * 2. / 6);
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::scatter, true), inside, outside), 4 * 2. / 6);
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::scatter, true), outside, inside), 2 * 4. / 6);
    // Each reads everything of everybody.
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::replicate, false), inside, outside), 2 * 4);
    // The root alone reads; or is read, and others find that in the cache.
    const member_set root{1, 1. / 6}, nobody{0, 1. / 6};
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::root, false), outside, root), 4);
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::root, false), inside, nobody), 0);
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::root, true), root, outside), 1);
    EXPECT_DOUBLE_EQ(vectors_read(round(mode::root, true), nobody, inside), 0);
    // Each reads its shard of the root, which reads the shard of each.
    EXPECT_DOUBLE_EQ(vectors_read(memory_work(mode::scatter, false, root_part::moves).round(0), root, outside), 4. / 6);
    EXPECT_DOUBLE_EQ(vectors_read(memory_work(mode::scatter, true, root_part::moves).round(0), outside, root), 4. / 6);
}

TEST(node_memory, waits_for_arrivals_and_for_what_others_reduce) {
    EXPECT_EQ(flag_waits(memory_work(mode::scatter, false)), 2);
    EXPECT_EQ(flag_waits(memory_work(mode::scatter, true)), 1);
    for (const bool down : {false, true}) EXPECT_EQ(flag_waits(memory_work(mode::root, down)), 1);
    EXPECT_EQ(flag_waits(memory_work(mode::replicate, false)), 1);
}

// Bytes read and written take gamma / 3 each, 24 GB/s.
TEST(node_memory, shared_memory_streams_what_it_reduces) {
    const double flag = 0.5e-6 / 3, access = reduce_time(two_nodes()) / 3, bytes = 48000;
    for (const int p : {2, 3, 4}) {
        const hierarchy node = machine(tree::uniform(std::vector{p}));
        const auto time = [&](mode how, collective what) {
            return predict(node, {{{0}, p, how, "", provider::shared_memory}}, 48000, 1, 0, what).time;
        };
        const double whole = 2 * bytes * access, in = whole * (p - 1) / p, out = whole;
        const double shard = (p + 1) * bytes / p * access;
        const double link = bytes / 10e9, most = link * (p - 1) / p;
        // Blocks are copied to where peers reach them, and back.
        EXPECT_NEAR(time(mode::scatter, collective::reduce_scatter),
                    2 * flag + whole * (1 + 1.0 / p) + std::max(shard, most), 1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::allgather), flag + whole * (1 + 1.0 / p) + std::max(in, most),
                    1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::allreduce), 3 * flag + in + shard + std::max(out, most), 1e-9);
        EXPECT_NEAR(time(mode::replicate, collective::allreduce),
                    flag + std::max(whole + p * bytes * access, (p - 1) * link), 1e-9);
        EXPECT_NEAR(time(mode::root, collective::reduce), flag + std::max((p + 1) * bytes * access, (p - 1) * link),
                    1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::broadcast),
                    2 * flag + whole + std::max(whole / p, most) + std::max(out, most), 1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::reduce), 3 * flag + in + shard + std::max(whole, most), 1e-9);
        EXPECT_NEAR(time(mode::root, collective::broadcast), flag + whole + std::max(whole, link), 1e-9);
    }
}

}  // namespace
}  // namespace terrace::detail::test::node_memory_test
