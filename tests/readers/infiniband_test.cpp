// InfiniBand fabrics as ibnetdiscover and iblinkinfo print them: tiers, rates, rails.

#include "topology/formats/infiniband.hpp"
#include "support/refusal.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/text_file.hpp"
#include "support/temporary.hpp"
#include "topology/formats.hpp"
#include "topology/network.hpp"

namespace terrace::detail::infiniband_test {
namespace {

using names = std::vector<std::string>;
using fabric = infiniband_fabric;

network_levels levels_of(const fabric& f) { return levels_of(network_of(f), {}, {}); }

network_levels levels_in(const std::string& text) {
    const std::filesystem::path file = temporary("fabric.txt");
    write_atomically(file, text);
    return levels_of(read_network(format_of(file.string()), file.string(), {}), {}, {});
}

std::string error_of(const std::string& text) {
    return refusal_of([&] { levels_in(text); });
}

// Returns a switch with nodes "n1 HCA-1" ..., and cables to other switches.
fabric::fabric_switch leaf(const std::string& id, const names& nodes, const names& switches, double rate = 1e9) {
    fabric::fabric_switch s{{1, 1}, id, id + " of a test"};
    for (const std::string& n : nodes) s.ports.push_back({"H-" + n, n, rate});
    for (const std::string& other : switches) s.ports.push_back({other, other, rate});
    return s;
}

TEST(infiniband, leaves_and_spines) {
    const network_levels n = levels_of({"file",
                                        {leaf("a", {"n1 HCA-1", "n2 HCA-1", "n3 HCA-1"}, {"x", "y"}),
                                         leaf("b", {"n4 HCA-1", "n5 HCA-1"}, {"x", "y", "y"}),
                                         leaf("x", {}, {"a", "b"}), leaf("y", {}, {"a", "b", "b"})}});
    EXPECT_EQ(n.machine.shape, tree({{3, 2}, {2}}));
    EXPECT_EQ(n.machine.hosts, (names{"n1", "n2", "n3", "n4", "n5"}));
    EXPECT_EQ(n.machine.levels[0].bandwidth, 1e9);
    EXPECT_FALSE(n.machine.levels[0].bandwidth_assumed);
    EXPECT_EQ(n.machine.levels[1].rates, (std::vector{2e9, 3e9}));  // 3 nodes over 2 cables, 2 over 3
    EXPECT_TRUE(n.machine.nics.empty());
}

TEST(infiniband, three_tiers) {
    const network_levels n =
        levels_of({"file",
                   {leaf("a", {"n1 HCA-1", "n2 HCA-1"}, {"x"}), leaf("b", {"n3 HCA-1"}, {"x"}),
                    leaf("c", {"n4 HCA-1", "n5 HCA-1"}, {"y"}), leaf("x", {}, {"a", "b", "z", "z"}),
                    leaf("y", {}, {"c", "z"}), leaf("z", {}, {"x", "x", "y"})}});
    EXPECT_EQ(n.machine.shape, tree({{2, 1, 2}, {2, 1}, {2}}));
    EXPECT_EQ(n.machine.levels[2].name, "core");
    EXPECT_EQ(n.machine.levels[2].rates, (std::vector{2e9, 1e9}));
}

TEST(infiniband, leaves_linked_to_one_another) {
    const network_levels n = levels_of(
        {"file", {leaf("a", {"n1 HCA-1", "n2 HCA-1"}, {"b", "b"}), leaf("b", {"n3 HCA-1", "n4 HCA-1"}, {"a", "a"})}});
    EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{2, 2}));
    EXPECT_EQ(n.machine.levels[1].bandwidth, 2e9);
}

// Returns the levels of leaves l0 ... with a node each, then spines. A cable is a pair of switch numbers.
network_levels cabled(int leaves, const std::vector<std::pair<int, int>>& cables, int spines = 0) {
    fabric f{"file", {}};
    for (int i = 0; i < leaves + spines; ++i)
        f.switches.push_back(
            leaf(fmt::format("l{}", i), i < leaves ? names{fmt::format("n{} HCA-1", i)} : names{}, {}));
    for (const auto& [a, b] : cables) {
        f.switches[at(a)].ports.push_back({f.switches[at(b)].id, "", 1e9});
        f.switches[at(b)].ports.push_back({f.switches[at(a)].id, "", 1e9});
    }
    return levels_of(f);
}

names level_names(const network_levels& n) {
    names result;
    for (const level& l : n.machine.levels) result.push_back(l.name);
    return result;
}

// Three groups of three leaves, with a cable between each pair of leaves in a group, and of groups.
TEST(infiniband, groups_of_a_dragonfly) {
    const network_levels n =
        cabled(9, {{0, 1}, {0, 2}, {1, 2}, {3, 4}, {3, 5}, {4, 5}, {6, 7}, {6, 8}, {7, 8}, {0, 3}, {4, 6}, {7, 1}});
    EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{3, 3}));
    EXPECT_EQ(level_names(n), (names{"group", "global"}));
    EXPECT_EQ(n.machine.levels[1].bandwidth, 2e9);
    // Two leaves of a group have no third leaf in common, but more cables than other pairs.
    const network_levels pairs = cabled(6, {{0, 1}, {0, 1}, {2, 3}, {2, 3}, {4, 5}, {4, 5}, {1, 2}, {3, 4}, {5, 0}});
    EXPECT_EQ(pairs.machine.shape, tree::uniform(std::vector{2, 3}));
    EXPECT_EQ(pairs.machine.levels[1].bandwidth, 2e9);
}

// Two groups of two leaves and two spines. Cables between spines join the groups.
TEST(infiniband, groups_of_a_dragonfly_plus) {
    const network_levels n =
        cabled(4, {{0, 4}, {0, 5}, {1, 4}, {1, 5}, {2, 6}, {2, 7}, {3, 6}, {3, 7}, {4, 6}, {5, 7}, {5, 7}}, 4);
    EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{2, 2}));
    EXPECT_EQ(level_names(n), (names{"group", "global"}));
    EXPECT_EQ(n.machine.levels[0].bandwidth, 1e9);
    EXPECT_EQ(n.machine.levels[1].bandwidth, 3e9);
}

TEST(infiniband, links_that_tell_no_groups_are_noted) {
    std::vector<std::pair<int, int>> hypercube, hyperx;
    for (int a = 0; a < 9; ++a)
        for (int b = a + 1; b < 9; ++b) {
            const int difference = a ^ b;
            if (b < 8 && (difference & (difference - 1)) == 0) hypercube.emplace_back(a, b);
            if (a / 3 == b / 3 || a % 3 == b % 3) hyperx.emplace_back(a, b);
        }
    for (const auto& [leaves, cables] : {std::pair(8, hypercube), std::pair(9, hyperx)}) {
        const network_levels n = cabled(leaves, cables);
        EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{leaves}));
        ASSERT_FALSE(n.notes.empty());
        EXPECT_EQ(
            n.notes[0].find(fmt::format("{} switches with nodes link to one another by {} cables, as \"l0 of a test "
                                        "(l0)\" to \"l1 of a test (l1)\"",
                                        leaves, cables.size())),
            0U)
            << n.notes[0];
    }
    EXPECT_TRUE(cabled(3, {{0, 1}, {0, 2}, {1, 2}}).notes.empty());  // all pairs
    EXPECT_TRUE(cabled(3, {{0, 1}, {0, 2}}).notes.empty());          // a spine with a node
}

TEST(infiniband, rails) {
    const auto cluster = [](bool swapped) {
        return fabric{
            "file",
            {leaf("a", {"n1 mlx5_0", "n2 mlx5_0"}, {"x"}),
             leaf("b", {"n1 mlx5_1", swapped ? "n2 mlx5_2" : "n2 mlx5_1"}, {"x"}),
             leaf("c", {"n1 mlx5_10", swapped ? "n2 mlx5_1" : "n2 mlx5_10"}, {"x"}), leaf("x", {}, {"a", "b", "c"})}};
    };
    const network_levels n = levels_of(cluster(false));
    EXPECT_EQ(n.machine.shape, tree::uniform(std::vector{2}));
    EXPECT_EQ(n.machine.levels[0].bandwidth, 3e9);
    EXPECT_EQ(n.machine.nics.count_of(0), 3);
    EXPECT_TRUE(n.machine.nics.rails);
    EXPECT_EQ(n.machine.nics.spine, 1e9);
    ASSERT_FALSE(n.notes.empty());
    EXPECT_NE(n.notes[0].find("rails: each of the 3 adapters"), std::string::npos);
    const network_levels crossed = levels_of(cluster(true));
    EXPECT_EQ(crossed.machine.nics.count_of(1), 3);
    EXPECT_FALSE(crossed.machine.nics.rails);
}

TEST(infiniband, what_is_no_node) {
    fabric f{"file", {leaf("a", {"n1 HCA-1", "MT4129 ConnectX7   Mellanox Technologies"}, {})}};
    f.switches[0].ports[1].peer = "H-77";
    f.switches[0].ports.push_back({"H-78", "Mellanox Technologies Aggregation Node", 1e9});
    const network_levels n = levels_of(f);
    EXPECT_EQ(n.machine.hosts, (names{"n1", "H-77"}));
    EXPECT_NE(n.notes.at(0).find("nodes of their own: 1"), std::string::npos) << n.notes.at(0);
}

TEST(infiniband, lanes) {
    EXPECT_EQ(*infiniband_lane("NDR") * 4, 400e9 / 8);
    EXPECT_EQ(*infiniband_lane("QDR") * 4, 32e9 / 8);
    EXPECT_EQ(infiniband_lane(106.25), infiniband_lane("NDR"));
    EXPECT_EQ(infiniband_lane(10.3125), infiniband_lane("FDR10"));
    EXPECT_FALSE(infiniband_lane("???"));
}

TEST(infiniband, the_same_fabric_in_all_formats) {
    const std::string discovered =
        "Switch\t36 \"S-1\"\t# \"leaf one\" enhanced port 0 lid 1 lmc 0\n"
        "[1]\t\"H-5\"[1](5) \t# \"n1 mlx5_0\" lid 5 4xHDR\n[2]\t\"H-6\"[1](6) \t# \"n2 mlx5_0\" lid 6 2xHDR\n\n"
        "Ca\t1 \"H-5\"\t# \"n1 mlx5_0\"\n[1](5) \t\"S-1\"[1]\t# lid 5 lmc 0 \"leaf one\" lid 1 4xHDR\n";
    const std::string linked =
        "Switch: 0x1 leaf one:\n"
        "     1    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>    5    1[  ] \"n1 mlx5_0\" ( )\n"
        "     1    2[  ] ==( 2X        53.125 Gbps Active/  LinkUp)==>    6    1[  ] \"n2 mlx5_0\" ( Could be 4X)\n"
        "     1    3[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n"
        "CA: n1 mlx5_0:\n"
        "      0x5   5    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>    1    1[  ] \"leaf one\" ( )\n";
    for (const std::string& text : {discovered, linked}) {
        const network_levels n = levels_in(text);
        EXPECT_EQ(n.machine.hosts, (names{"n1", "n2"})) << text;
        EXPECT_EQ(n.machine.levels[0].rates, (std::vector{25e9, 12.5e9})) << text;
    }
}

TEST(infiniband, errors_say_where_and_what) {
    for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
             {"# Topology file: generated on now\nCa 1 \"H-1\"\n", "no switch in the file"},
             {"Switch 8 \"S\"\n", "no node hangs on a switch"},
             {"Switch 8 \"S\"\nSwitch 8 \"S\"\n", ":2:1: switch \"S\" is there twice"},
             {"Switch 8 \"S\"\n[1] \"H\n", ":2:1: the port has no \"peer\""},
             {"Switch 8 \"S\"\n[1 \"H\"\n", ":2:1: the port's number is not closed"},
             {"Switch 8 \"S\"\n[1] \"a b\"\n", ":1:1: \"a b\" is no name of a node"},
             {"Switch: 0x1 s:\n 1 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> [ ] \"\"\n", ":2:1: the link has no LID"},
             {"Switch:\n 1 1[ ] ==( Down/ Polling)==> [ ] \"\"\n", ":1:1: the switch has no GUID"},
             {"Switch 8 \"S\"\n[1] \"n1\"\nSwitch 8 \"T\"\n[1] \"n2\"\n", "nothing connects switch \"T and above\""}})
        EXPECT_NE(error_of(text).find(what), std::string::npos) << error_of(text);
}

}  // namespace
}  // namespace terrace::detail::infiniband_test
