// NICs in prices, limits and simulations.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "machine/hierarchy_yaml.hpp"
#include "machine/link_rows.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "planner/simulate/simulate.hpp"
#include "planner/unequal_shares.hpp"
#include "schedule/compose.hpp"
#include "schedule/lower.hpp"
#include "schedule/verify.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::nic_prices_test {
namespace {

hierarchy four_nics() { return with_nics(two_nodes(), "{count: 4}"); }

double most_bytes(const simulation& s, int row) {
    double most = 0;
    for (const link_load& l : s.links)
        if (l.row == row) most = std::max(most, l.bytes);
    return most;
}

TEST(nic_prices, one_rank_has_one_nic) {
    // In a chain over all ranks each node's data leaves by one rank's NIC, with a quarter of the node's rate.
    const std::vector<stage> chain{{{0, 1}, 8, mode::root, "chain"}};
    const double bytes = 8.0 * mib, rate = 125e6 / 4;
    const prediction p = predict(four_nics(), chain, 8 * mib, 1, 0, collective::broadcast);
    ASSERT_EQ(p.links.size(), 3U);
    EXPECT_DOUBLE_EQ(p.links[2].bytes, bytes);
    EXPECT_DOUBLE_EQ(p.links[2].time, bytes / rate);
    EXPECT_GT(p.time, 2 * predict(two_nodes(), chain, 8 * mib, 1, 0, collective::broadcast).time);
    EXPECT_GT(simulate(four_nics(), rule_of(chain), collective::broadcast, 8 * mib).time, bytes / rate);
}

TEST(nic_prices, all_ranks_together_have_all_nics) {
    const std::vector<stage> staged{{{0}, 4, mode::scatter, "ring"}, {{1}, 2, mode::scatter, "ring"}};
    const prediction with = predict(four_nics(), staged, 8 * mib, 1, 0);
    const prediction without = predict(two_nodes(), staged, 8 * mib, 1, 0);
    EXPECT_NEAR(with.time, without.time, 1e-6 * without.time);
    EXPECT_DOUBLE_EQ(with.links[2].time, with.links[1].time);
}

TEST(nic_prices, only_ranks_with_data_use_their_nics) {
    const std::vector<stage> two_level{{{0}, 4, mode::root, "tree"}, {{1}, 2, mode::scatter, "ring"}};
    EXPECT_DOUBLE_EQ(predict(four_nics(), two_level, 8 * mib, 1, 0).links[2].time, 8.0 * mib / (125e6 / 4));
}

TEST(nic_prices, a_slow_nic_counts) {
    const hierarchy h = with_nics(two_nodes(), "[40 MB/s, 40 MB/s, 5 MB/s, 40 MB/s]");
    const std::vector<stage> staged{{{0}, 4, mode::scatter, "ring"}, {{1}, 2, mode::scatter, "ring"}};
    EXPECT_DOUBLE_EQ(predict(h, staged, 8 * mib, 1, 0).links[2].time, 2.0 * mib / 5e6);
    EXPECT_GT(simulate(h, rule_of(staged), collective::allreduce, 8 * mib).time, 2.0 * mib / 5e6);
}

// The busiest NIC carries as many bytes in a simulation as in the price.
TEST(nic_prices, nics_carry_the_bytes_that_are_predicted) {
    for (const std::vector<int>& shape : {std::vector{4, 2}, {4, 4}, {2, 2, 2}, {4, 2, 2}})
        for (const std::string nics : {"{count: 2}", "{count: 4}", "{count: 2, rails: true}"}) {
            const hierarchy h = with_nics(machine(tree::uniform(shape)), nics);
            for (const std::string_view name : {"flat-ring", "flat-rings", "two-level", "two-level-nics"}) {
                const std::int64_t bytes = 64 * kib * h.ranks();
                const std::vector<stage> stages = baseline(h, name).stages;
                const simulation s = simulate(h, rule_of(stages), collective::allreduce, bytes);
                const int row = link_rows(h).nic_row();
                const double predicted = predict(h, stages, bytes, 1, 0).links[static_cast<std::size_t>(row)].bytes;
                EXPECT_NEAR(most_bytes(s, row), predicted, 0.02 * predicted + 1) << text(h.shape) << nics << name;
            }
        }
}

// In groups with too many positions to run each, the price counts the messages of one position.
TEST(nic_prices, large_groups_charge_nics_too) {
    const hierarchy h = with_nics(machine(tree::uniform(std::vector{8, 6})), "{count: 4, rails: true, spine: 10 MB/s}");
    for (const std::string_view by : {"ring", "direct"}) {
        const std::vector<stage> flat{{{0, 1}, 48, mode::scatter, std::string(by)}};
        const simulation s = simulate(h, rule_of(flat), collective::allreduce, 48 * 64 * kib);
        const prediction p = predict(h, flat, 48 * 64 * kib, 1, 0);
        for (const int row : {2, 3}) {
            const double bytes = p.links[static_cast<std::size_t>(row)].bytes;
            EXPECT_NEAR(most_bytes(s, row), bytes, 0.02 * bytes + 1) << by << ", row " << row;
        }
    }
}

TEST(nic_prices, the_spine_holds_up_what_changes_rails) {
    const hierarchy free = with_nics(two_nodes(), "{count: 4, rails: true}");
    const hierarchy thin = with_nics(two_nodes(), "{count: 4, rails: true, spine: 1 MB/s}");
    const std::vector<stage> staged{{{0}, 4, mode::scatter, "ring"}, {{1}, 2, mode::scatter, "ring"}};
    const std::vector<stage> flat{{{0, 1}, 8, mode::scatter, "ring"}};
    EXPECT_DOUBLE_EQ(predict(thin, staged, mib, 1, 0).time, predict(free, staged, mib, 1, 0).time);
    EXPECT_GT(predict(thin, flat, mib, 1, 0).time, 1.5 * predict(free, flat, mib, 1, 0).time);
    const auto simulated = [&](const hierarchy& h, const std::vector<stage>& s) {
        return simulate(h, rule_of(s), collective::allreduce, mib).time;
    };
    EXPECT_DOUBLE_EQ(simulated(thin, staged), simulated(free, staged));
    EXPECT_GT(simulated(thin, flat), 1.5 * simulated(free, flat));
}

TEST(nic_prices, limits_are_those_of_nodes_and_of_rails) {
    EXPECT_DOUBLE_EQ(limit(four_nics(), mib), limit(two_nodes(), mib));
    EXPECT_DOUBLE_EQ(limit(four_nics(), mib, collective::broadcast), mib / 125e6);
    const hierarchy uneven = with_nics(machine(tree({{4, 4}, {2}})), "{count: [4, 2], bandwidth: 20 MB/s}");
    EXPECT_DOUBLE_EQ(limit(uneven, mib, collective::broadcast), mib / 40e6);
    // NICs on rails that no other node has reach other nodes only over the spine.
    const hierarchy alone = with_nics(machine(tree({{4, 4, 4}, {3}})),
                                      "{count: [4, 1, 1], bandwidth: [5 MB/s, 5 MB/s, 5 MB/s, 5 MB/s, 20 MB/s, "
                                      "20 MB/s], rails: true, spine: 1 MB/s}");
    EXPECT_DOUBLE_EQ(limit(alone, mib, collective::broadcast), mib / (5e6 + 3 * 1e6));
    for (const collective what : all_collectives)
        for (const ranked& r : rank_candidates(four_nics(), mib, what))
            EXPECT_GE(r.how.predicted, r.how.limit * (1 - 1e-9));
}

TEST(nic_prices, rows_have_names) {
    const hierarchy h = with_nics(two_nodes(), "{count: 4, rails: true, spine: 1 MB/s}");
    const link_rows rows(h);
    EXPECT_EQ(rows.count(), 4);
    EXPECT_EQ(rows.text(1), "links into rack");
    EXPECT_EQ(rows.text(2), "NICs of rack");
    EXPECT_EQ(rows.text(3), "spine of rack");
    EXPECT_EQ(rows.members(3), 4);
    EXPECT_EQ(link_rows(two_nodes()).count(), 2);
}

// One of eight NICs has half the rate. Its rank, and the rank at the same position in the other node, get half as much
// of the vector as other ranks.
TEST(nic_prices, plans_spare_a_slow_nic) {
    const hierarchy h = with_nics(two_nodes(),
                                  "{count: 4, bandwidth: [250 Mbit/s, 250 Mbit/s, 125 Mbit/s, 250 Mbit/s, "
                                  "250 Mbit/s, 250 Mbit/s, 250 Mbit/s, 250 Mbit/s]}");
    EXPECT_EQ(unequal_shares(h).of({0}), (std::vector{2, 2, 1, 2}));
    EXPECT_TRUE(unequal_shares(four_nics()).of({0}).empty());
    const plan_data plan = make_plan("m", h);
    const rule& chosen = plan.choose(collective::allreduce, 32 * mib);
    EXPECT_EQ(chosen.stages.front().shares, (std::vector{2, 2, 1, 2}));
    EXPECT_EQ(parse_plan(plan.text, "m.yaml").choose(collective::allreduce, 32 * mib).stages, chosen.stages);
    rule equal = chosen;
    equal.stages.front().shares.clear();
    const auto time = [&](const rule& r) { return simulate(h, r, collective::allreduce, 32 * mib).time; };
    EXPECT_LT(time(chosen), limit(h, 32 * mib) / 0.95);
    EXPECT_GT(time(equal), limit(h, 32 * mib) / 0.6);
    EXPECT_NEAR(predict(h, chosen.stages, 32 * mib, chosen.lanes, chosen.chunk).time, time(chosen), 0.1 * time(chosen));

    for (const std::int64_t count : {0, 1, 7, 1000}) {
        std::vector<schedule> programs;
        for (const schedule& s : generate_all(compose(h, chosen.stages, count, 16), collective::allreduce))
            programs.push_back(lower(s, {}));
        EXPECT_EQ(find_fault(programs), std::nullopt) << count;
    }
}

// A NIC at half its rate delays any rank that uses it, and a thin spine delays ranks without a peer on their rail. If
// prices decided, a broadcast of 256 KiB would take 1.46 times as long as flat rings, and a reduce of 8 MiB 1.32 times.
TEST(nic_prices, simulations_judge_calls_with_a_root) {
    std::string rates = "250 Mbit/s, 125 Mbit/s";
    for (int nic = 2; nic < 16; ++nic) rates += ", 250 Mbit/s";
    const hierarchy slow =
        with_nics(machine(tree::uniform(std::vector{6, 4})), "{count: 4, bandwidth: [" + rates + "]}");
    const hierarchy thin = with_nics(machine(tree({{4, 2, 5}, {3}})),
                                     "{count: [4, 2, 3], bandwidth: 250 Mbit/s, rails: true, spine: 100 Mbit/s}");
    for (const hierarchy& h : {slow, thin}) {
        const plan_data plan = make_plan("m", h);
        int decided = 0;
        for (const collective what : {collective::broadcast, collective::reduce})
            for (const rule& r : plan.rules.at(what)) {
                if (r.simulated == 0 || r.at > 2 * mib) continue;
                ++decided;
                for (const char* name : {"flat-ring", "flat-rings", "two-level", "two-level-nics"}) {
                    const rule other = tuned(h, baseline(h, name, what), r.at, what);
                    EXPECT_LE(simulate(h, r, what, r.at).time, 1.02 * simulate(h, other, what, r.at).time)
                        << to_string(what) << " of " << r.at << ", " << name;
                }
            }
        EXPECT_GE(decided, 1);
    }
}

}  // namespace
}  // namespace terrace::detail::test::nic_prices_test
