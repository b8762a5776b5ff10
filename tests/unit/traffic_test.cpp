// Loads of links and processors by messages, and the times of these loads, compared with closed forms.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/partition.hpp"
#include "planner/figures.hpp"
#include "planner/planner.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::traffic_test {
namespace {

double one_stage(int ranks, mode how, std::string_view algorithm, std::int64_t bytes,
                 collective what = collective::allreduce) {
    return predict(network(ranks), {{{0}, ranks, how, std::string(algorithm)}}, bytes, 1, 0, what).time;
}

// Exchanges cost (alpha + o), and bytes cost beta on a link. In groups of more than 32 positions only a few positions
// are read.
TEST(traffic, meets_the_closed_forms) {
    const double alpha = 10e-6, o = 2e-6, bytes = 48000, beta = 1e-9, gamma = reduce_time(network(2));
    for (const int p : {2, 3, 8, 100, 1500}) {
        const double share = (p - 1.0) / p * bytes;
        const double rounds = ceil_log2(p);
        EXPECT_NEAR(one_stage(p, mode::scatter, "ring", 48000), 2 * (p - 1) * (alpha + o) + share * (2 * beta + gamma),
                    1e-9);
        // A position sends consecutive shards that go past the last shard as two messages. In each round with several
        // shards some position does so. In groups of more than 32 positions, all are assumed to be equal.
        double split = 0;
        for (int distance = p; p <= 32 && distance > 1; distance = (distance + 1) / 2) split += distance / 2 > 1;
        EXPECT_NEAR(one_stage(p, mode::scatter, "halving", 48000),
                    2 * (rounds * (alpha + o) + split * o) + share * (2 * beta + gamma), 1e-9);
        // `direct` reduces all inputs at once: it reads p and writes one. A step of a ring reads two and writes one.
        EXPECT_NEAR(one_stage(p, mode::scatter, "direct", 48000),
                    2 * (alpha + (p - 1) * o) + share * 2 * beta + (p + 1) / 3.0 / p * bytes * gamma, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "tree", 48000), rounds * (2 * (alpha + o + bytes * beta) + bytes * gamma),
                    1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "direct", 48000),
                    2 * (alpha + (p - 1) * (o + bytes * beta)) + (p + 1) / 3.0 * bytes * gamma, 1e-9);
    }
    for (const int p : {2, 3, 8, 64}) {
        const double share = (p - 1.0) / p * bytes, hop = alpha + o + bytes * beta;
        const double copies = 2 * (1 + 1.0 / p) * bytes * gamma / 3;  // blocks are copied in and out
        EXPECT_NEAR(one_stage(p, mode::root, "chain", 48000, collective::broadcast), (p - 1) * hop, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "chain", 48000, collective::reduce), (p - 1) * (hop + bytes * gamma),
                    1e-9);
        EXPECT_NEAR(one_stage(p, mode::scatter, "ring", 48000, collective::reduce_scatter),
                    (p - 1) * (alpha + o) + share * (beta + gamma) + copies, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::scatter, "ring", 48000, collective::allgather),
                    (p - 1) * (alpha + o) + share * beta + copies, 1e-9);
        EXPECT_NEAR(one_stage(p, mode::root, "tree", 48000, collective::broadcast), ceil_log2(p) * hop, 1e-9);
        // The root scatters all data, and the other ranks gather the shards, of which one rank has two. In a reduce the
        // other ranks reduce their data without the root, which gathers the result and adds its own data.
        const double through_root = alpha + (p - 1) * o + bytes * beta;
        const double among_others = p == 2 ? 0 : alpha + (p - 2) * (o + 2.0 / p * bytes * beta);
        const double adding = (p == 2 ? 0 : p / 3.0 * 2 / p * bytes * gamma) + bytes * gamma;
        EXPECT_NEAR(one_stage(p, mode::scatter, "direct", 48000, collective::broadcast), through_root + among_others,
                    1e-9);
        EXPECT_NEAR(one_stage(p, mode::scatter, "direct", 48000, collective::reduce),
                    through_root + among_others + adding, 1e-9);
    }
    EXPECT_NEAR(one_stage(8, mode::replicate, "doubling", 48000), 3 * (alpha + o + bytes * (beta + gamma)), 1e-9);
}

TEST(traffic, counts_wire_segments) {
    const double whole = one_stage(2, mode::replicate, "direct", 480 << 10);
    const double bytes = 480 << 10, gamma = reduce_time(network(2));
    EXPECT_NEAR(whole, 10e-6 + 10 * 2e-6 + bytes * (1e-9 + gamma), 1e-9);
    hierarchy longer = network(2);
    longer.processors.segment = 192 << 10;
    EXPECT_NEAR(predict(longer, {{{0}, 2, mode::replicate, "direct"}}, 480 << 10, 1, 0).time,
                10e-6 + 3 * 2e-6 + bytes * (1e-9 + gamma), 1e-9);
}

TEST(traffic, nothing_costs_nothing) {
    EXPECT_EQ(one_stage(1, mode::scatter, "ring", mib), 0);
    EXPECT_EQ(one_stage(4, mode::scatter, "ring", 0), 0);
}

// ---- several stages -------------------------------------------------------------------------------------------------

// Bytes through one node's uplink: flat ring 2 (P-1)/P N, staged 2 (n-1)/n N.
TEST(traffic, charges_every_link_that_is_crossed) {
    const double bytes = 8 * mib;
    const auto through = [&](const std::vector<stage>& stages) {
        std::vector<double> result;
        for (const link_cost& l : predict(two_racks(), stages, 8 * mib, 1, 0).links) result.push_back(l.bytes / bytes);
        return result;
    };
    const std::vector<double> ring = through(baseline(two_racks(), "flat-ring").stages);
    for (const double link : ring) EXPECT_NEAR(link, 2 * 11.0 / 12, 1e-6);
    const std::vector<double> staged =
        through({{{0}, 3, mode::scatter, "ring"}, {{1}, 2, mode::scatter, "ring"}, {{2}, 2, mode::scatter, "ring"}});
    EXPECT_NEAR(staged[0], 2 * 11.0 / 12, 1e-6);
    EXPECT_NEAR(staged[1], 2 * 3.0 / 4, 1e-6);
    EXPECT_NEAR(staged[2], 2 * 1.0 / 2, 1e-6);
}

// BlueConnect's cost of stages one after another: twice the sum of (p_i - 1) start-ups and (p_i - 1)/p_i of N/q_i
// bytes, q_i = p_0 ... p_(i-1), at the rate per rank. In the paper's written-out sum this rate is the minimum of
// U_j/q_j for j <= i. Its compact form (equation 9) has j < i, so it omits the links of the stage itself.
double paper_time(const hierarchy& h, double bytes, bool compact) {
    double time = 0, q = 1, rate = std::numeric_limits<double>::infinity();
    for (int l = 0; l < h.depth(); ++l) {
        const level& of = h.levels[static_cast<std::size_t>(l)];
        const double p = *h.shape.uniform_size(l), own = std::min(rate, of.bandwidth / q);
        time += 2 * ((p - 1) * (of.latency + of.overhead) + (p - 1) / p * bytes / q / (compact ? rate : own));
        rate = own;
        q *= p;
    }
    return time;
}

TEST(traffic, stages_one_after_the_other_cost_what_the_paper_expands) {
    const auto with_rates = [](const std::vector<double>& rates) {
        hierarchy h{{}, tree::uniform(std::vector{4, 3, 2}), {1e18}};
        for (const double rate : rates)
            h.levels.push_back(link(fmt::format("l{}", h.levels.size()), fabric::infiniband, rate, 2e-6, 1e-6));
        return h;
    };
    for (const hierarchy& h : {with_rates({10e9, 2e9, 1e9}), with_rates({1e9, 8e9, 100e9}), with_rates({1e9, 1e9, 1e9}),
                               with_rates({3e9, 20e9, 5e9})}) {
        const std::int64_t bytes = 24 * 4096;  // no message is cut
        const double priced =
            predict(h,
                    {{{0}, 4, mode::scatter, "ring"}, {{1}, 3, mode::scatter, "ring"}, {{2}, 2, mode::scatter, "ring"}},
                    bytes, 1, 0)
                .time;
        EXPECT_NEAR(priced, paper_time(h, bytes, false), 1e-3 * priced);
        // Without the stage's own links the first stage only costs start-ups.
        EXPECT_LT(paper_time(h, bytes, true), paper_time(h, bytes, false));
    }
}

}  // namespace
}  // namespace terrace::detail::test::traffic_test
