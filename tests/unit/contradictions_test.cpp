// terrace-bench --discover --compare: its report about a machine that differs from its file.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/discover/contradictions.hpp"
#include "bench/discover/discover.hpp"
#include "support/simulated_network.hpp"

namespace terrace::detail::bench::contradictions_test {

namespace {

constexpr double megabit = 125e3;  // [B/s]

level link(std::string name, fabric medium, double rate, double latency) {
    return {.name = std::move(name), .medium = medium, .bandwidth = rate, .latency = latency, .overhead = 1e-6};
}

class contradictions_to_a_file : public testing::Test {
protected:
    static hierarchy machine() { return racks_of(3, 1500); }
    // Returns 3 racks of nodes of 2 ranks with links of 1 Gbit/s. Racks have uplinks of `uplink` Mbit/s.
    static hierarchy racks_of(int nodes, double uplink) {
        hierarchy h;
        h.levels = {link("node", fabric::shm, 10e9, 0.5e-6), link("rack", fabric::ethernet, 1000 * megabit, 30e-6),
                    link("core", fabric::ethernet, uplink * megabit, 30e-6)};
        h.shape = tree::uniform(std::vector{2, nodes, 3});
        return h;
    }
    static hierarchy with_a_slow_node(hierarchy h, int node) {
        std::vector<double> rates(at(h.shape.members(1)), 1000 * megabit);
        rates[at(node)] = 100 * megabit;
        h.levels[1] = with_rates(h.levels[1], rates);
        return h;
    }
    // Returns contradictions of the machine `is` to its file `said`, with nodes a and b swapped and `sure` sure levels.
    static std::vector<std::string> told(const hierarchy& is, const hierarchy& said, int a = 0, int b = 0,
                                         int sure = 9) {
        simulated_network net(is, 6);
        const discovery d = discover(net, {.seed = 6});
        const discovered_machine found = machine_of(d, {});
        std::vector<int> places;
        for (const int rank : found.ranks) {
            int place = net.places()[at(rank)];
            if (place / 2 == a) place += 2 * (b - a);
            else if (place / 2 == b) place += 2 * (a - b);
            places.push_back(place);
        }
        return contradictions(found.machine, places, said, std::min(sure, d.sure_levels()));
    }
    static std::vector<std::string> none() { return {}; }
};

TEST_F(contradictions_to_a_file, there_is_none_to_the_truth) {
    EXPECT_EQ(told(machine(), machine()), none());
    EXPECT_EQ(told(with_a_slow_node(machine(), 4), with_a_slow_node(machine(), 4)), none());
}

// No measurement shows racks whose uplinks are never full, or the faster one of two links.
TEST_F(contradictions_to_a_file, there_is_none_where_nothing_can_show) {
    EXPECT_EQ(told(racks_of(3, 4000), racks_of(3, 4000)), none());
    hierarchy two = racks_of(3, 1500);
    two.levels.pop_back();
    two.levels[1] = with_rates(two.levels[1], {1000 * megabit, 500 * megabit});
    two.shape = tree::uniform(std::vector{2, 2});
    EXPECT_EQ(told(two, two), none());
}

TEST_F(contradictions_to_a_file, names_a_slow_link) {
    // A rack of two nodes, one slow, sends as much as one node, so the rack's uplink no longer shows.
    for (const hierarchy& said : {machine(), racks_of(2, 1000)}) {
        const std::vector<std::string> all = told(with_a_slow_node(said, 4), said);
        ASSERT_EQ(all.size(), 1u) << fmt::format("{}", fmt::join(all, "\n"));
        EXPECT_TRUE(all[0].starts_with("link of node4 into \"rack\": 1 Gbit/s by the file, measured ")) << all[0];
        EXPECT_TRUE(all[0].ends_with(" 0.1 times as fast") || all[0].find(" 0.09") != std::string::npos) << all[0];
    }
}

TEST_F(contradictions_to_a_file, names_racks_that_share_no_link) {
    const std::vector<std::string> all = told(racks_of(3, 4000), machine());
    EXPECT_EQ(all, std::vector<std::string>{"share a link by the file, level \"rack\": node[0-2] and node[3-5] and "
                                            "node[6-8]; measurements do not show it"});
}

TEST_F(contradictions_to_a_file, there_is_none_in_levels_that_are_not_sure) {
    for (int sure = 0; sure < 3; ++sure) {
        EXPECT_EQ(told(racks_of(3, 4000), machine(), 0, 0, std::min(sure, 1)), none());
        EXPECT_EQ(told(machine(), machine(), 1, 5, std::min(sure, 1)), none());
        EXPECT_EQ(told(with_a_slow_node(machine(), 4), machine(), 0, 0, sure).size(), sure > 1 ? 1u : 0u);
    }
}

TEST_F(contradictions_to_a_file, names_groups_that_the_file_lacks) {
    hierarchy flat = machine();
    flat.levels.pop_back();
    flat.shape = tree::uniform(std::vector{2, 9});
    const std::vector<std::string> all = told(machine(), flat);
    EXPECT_EQ(all, std::vector<std::string>{"share a link as measured, level \"rack\": node[0-2] and node[3-5] and "
                                            "node[6-8]; the file has no such groups"});
}

TEST_F(contradictions_to_a_file, names_a_cable_in_the_wrong_rack) {
    const std::vector<std::string> all = told(machine(), machine(), 1, 5);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0], "node5 is in \"rack\" 1 by the file, and measured in 0, with node[0,2]");
    EXPECT_EQ(all[1], "node1 is in \"rack\" 0 by the file, and measured in 1, with node[3-4]");
    const std::vector<std::string> of_two = told(racks_of(2, 1000), racks_of(2, 1000), 1, 2);
    ASSERT_EQ(of_two.size(), 2u);
    EXPECT_EQ(of_two[0], "node2 is in \"rack\" 1 by the file, and measured in 0, with node0");
    EXPECT_EQ(of_two[1], "node1 is in \"rack\" 0 by the file, and measured in 1, with node3");
}

}  // namespace

}  // namespace terrace::detail::bench::contradictions_test
