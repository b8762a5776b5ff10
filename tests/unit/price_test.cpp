// Prices of several stages, in chunks and lanes.

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "planner/pricer.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::price_test {
namespace {

// Machines with special cases: a torus with other links inside its nodes than around, and siblings of unequal size,
// which own unequal parts.
TEST(price, is_nowhere_below_the_limit) {
    std::vector<hierarchy> all = machines();
    all.push_back(
        hierarchy{{link("node", fabric::shm, 2e9, 1e-6, 1e-7), link("x", fabric::infiniband, 56e9, 1e-6, 1e-7),
                   link("y", fabric::infiniband, 84e9, 1e-6, 1e-7)},
                  tree::uniform(std::vector{2, 6, 2})});
    all.back().levels[1].ring = all.back().levels[2].ring = true;
    all.push_back(hierarchy{{link("node", fabric::shm, 30e9, 5e-7, 1e-7), link("box", fabric::bus, 1e9, 1e-6, 1e-7)},
                            tree({{6, 4, 2}, {3}})});
    for (hierarchy& h : all) {
        h.processors.reduction = 1e15;
        pricer prices(h);
        for (const collective what : all_collectives)
            for (const candidate& c : candidates(h, what)) {
                const price cost = prices.price_stages(c.stages, what);
                for (const std::int64_t bytes : {1 * mib, 64 * mib})
                    for (const auto& [lanes, chunk] : {std::pair<int, std::int64_t>{1, 0}, {3, 256 * kib}})
                        EXPECT_GE(cost.time(static_cast<double>(bytes), lanes, chunk), limit(h, bytes, what) * 0.999)
                            << describe(h, c.stages) << ' ' << to_string(what) << ' ' << bytes << ' ' << chunk;
            }
    }
}

TEST(price, pipelining_approaches_the_busiest_link) {
    const std::vector<stage> stages{
        {{0}, 3, mode::scatter, "direct"}, {{1}, 2, mode::scatter, "ring"}, {{2}, 2, mode::scatter, "ring"}};
    const double floor = limit(two_racks(), 32 * mib);
    const double sequential = predict(two_racks(), stages, 32 * mib, 1, 0).time;
    const double pipelined = predict(two_racks(), stages, 32 * mib, 2, 288 << 10).time;
    EXPECT_GT(sequential, 1.5 * floor);
    EXPECT_LT(pipelined, 1.01 * floor);
    EXPECT_GT(pipelined, floor);
    // With one lane, chunks gain nothing.
    EXPECT_GE(predict(two_racks(), stages, 32 * mib, 1, 288 << 10).time, sequential);
}

TEST(price, never_beats_the_limit) {
    for (const hierarchy& h : machines())
        for (const collective what : all_collectives)
            for (const ranked& c : rank_candidates(h, 64 * mib, what))
                EXPECT_GE(c.how.predicted, limit(h, 64 * mib, what) * (1 - 1e-9)) << describe(h, c.what.stages);
}

TEST(price, every_collective_reaches_its_limit) {
    for (const hierarchy& h : {two_nodes(), two_racks()})
        for (const collective what : all_collectives)
            EXPECT_LT(rank_candidates(h, 32 * mib, what).front().how.predicted, 1.01 * limit(h, 32 * mib, what))
                << to_string(what);
}

// Measured on the virtual cluster (docs/measurements/large-messages.md), whose goodput is 95.65 % of the rate: 281 ms,
// 564 ms, and 518 ms with a flat ring.
TEST(price, agrees_with_what_was_measured) {
    constexpr double goodput = 1448.0 / 1514;
    const auto best = [](const hierarchy& h) { return rank_candidates(h, 32 * mib).front().how.predicted; };
    EXPECT_NEAR(best(two_nodes()) / goodput, 0.281, 0.281 * 0.03);
    EXPECT_NEAR(best(two_racks()) / goodput, 0.564, 0.564 * 0.03);
    hierarchy h = machine(tree::uniform(std::vector{2, 2, 3}));
    h.levels[2].bandwidth = 125e6;
    EXPECT_NEAR(tuned(h, baseline(h, "flat-ring"), 32 * mib).predicted / goodput, 0.518, 0.518 * 0.03);
}

// The lower bound by which candidates are filtered holds for all lanes and chunks.
TEST(price, is_at_least_its_own_bound) {
    for (const hierarchy& h : {two_racks(), uneven(), network(7)}) {
        pricer prices(h);
        for (const candidate& c : candidates(h)) {
            const price cost = prices.price_stages(c.stages, collective::allreduce);
            for (const double bytes : {8.0, 65536.0, 1e7})
                for (const auto& [lanes, chunk] : {std::pair<int, std::int64_t>{1, 0}, {2, 64 * kib}, {3, 256 * kib}})
                    EXPECT_GE(cost.time(bytes, lanes, chunk), cost.at_least(bytes) * (1 - 1e-9))
                        << describe(h, c.stages);
        }
    }
}

// A rank of four sends three messages each way; a chunk of 96 KiB has shards of 24 KiB, one segment each.
TEST(price, counts_messages_in_segments) {
    const hierarchy h = network(4);
    const price cost =
        pricer(h).price_stages(std::vector<stage>{{{0}, 4, mode::scatter, "ring"}}, collective::allreduce);
    EXPECT_EQ(cost.messages(96 << 10, 0), 4 * 2 * 3);
    EXPECT_EQ(cost.messages(4 * 96 << 10, 0), 4 * 2 * 3 * 2);
    EXPECT_EQ(cost.messages(4 * 96 << 10, 96 << 10), 4 * 4 * 2 * 3);
    EXPECT_EQ(cost.network_part(), 0.25);
    EXPECT_TRUE(cost.crosses_network());
}

}  // namespace
}  // namespace terrace::detail::test::price_test
