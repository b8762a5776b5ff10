// Places of ranks in the plan.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "api/creation/placement.hpp"
#include "base/hosts.hpp"
#include "support/refusal.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test::placement_test {

namespace {

using numbers = std::vector<int>;
using names = std::vector<std::string>;

// Returns nodes of 2, 2 and 1 ranks.
hierarchy planned(names hosts) {
    hierarchy h{{{.name = "node"}, {.name = "cluster", .medium = fabric::ethernet}}, tree({{2, 2, 1}, {3}})};
    h.hosts = std::move(hosts);
    return h;
}

std::string refusal(const hierarchy& machine, const numbers& nodes, const names& hosts) {
    return refusal_of<plan_error>([&] { places_of(machine, nodes, hosts); });
}

bool says(const std::string& text, const names& parts) {
    for (const std::string& part : parts)
        if (text.find(part) == text.npos) return false;
    return true;
}

}  // namespace

TEST(places, without_names_nodes_come_by_their_lowest_rank) {
    EXPECT_EQ(places_of(planned({}), numbers{0, 0, 2, 2, 4}, {}), (numbers{0, 1, 2, 3, 4}));
    // Ranks are dealt out over the nodes by turns.
    EXPECT_EQ(places_of(planned({}), numbers{0, 1, 2, 0, 1}, {}), (numbers{0, 2, 4, 1, 3}));
    EXPECT_TRUE(
        says(refusal(planned({}), {0, 1, 1, 3, 3}, {}),
             {"2 2 1 in the plan", "and 1 2 2 in the job (those of a node share its host name and /dev/shm);"}));
}

TEST(places, ranks_of_one_machine_that_share_no_memory_are_named) {
    EXPECT_EQ(memory_apart(names{"a 7 x", "a 7 x", "b 8 y"}), "");
    const std::string apart = memory_apart(names{"b 7 x", "a 7 x", "a 8 y", "a 9 z"});
    EXPECT_EQ(apart, "ranks 1-3 run on one machine with 3 different /dev/shm, as in containers; let them share it");
    EXPECT_TRUE(says(refusal_of<plan_error>([&] {
                         places_of(planned({}), numbers{0, 1, 2, 3, 4}, {}, apart);
                     }),
                     {"1 1 1 1 1 in the job (", "/dev/shm: " + apart + ");"}));
}

TEST(places, hosts_are_where_the_plan_has_them_whatever_the_order) {
    const hierarchy h = planned({"a", "b.site", "c"});
    EXPECT_EQ(places_of(h, numbers{0, 1, 1, 3, 3}, names{"c.site", "b", "b", "a", "a"}), (numbers{4, 2, 3, 0, 1}));
}

TEST(places, a_host_that_does_not_fit_is_named) {
    const hierarchy h = planned({"node1", "node2", "node3"});
    EXPECT_TRUE(says(refusal(h, {0, 0, 2, 2, 4}, {"node1", "node1", "node2", "node2", "node7"}),
                     {"host \"node7\" is none of the plan's, node[1-3]"}));
    EXPECT_TRUE(says(refusal(h, {0, 0, 2, 3, 3}, {"node1", "node1", "node2", "node3", "node3"}),
                     {"host \"node2\" has 2 ranks in the plan, and 1 in the job"}));
    EXPECT_TRUE(says(refusal(h, {0, 0, 2, 2, 4}, {"node1", "node1", "node2", "node2", "node2.site"}),
                     {"two nodes", "\"node2.site\""}));
}

// Names that differ only behind the first dot are different if they are given in full.
TEST(places, full_names_come_first) {
    const hierarchy h = planned({"n.east", "n.west", "m"});
    EXPECT_EQ(places_of(h, numbers{0, 0, 2, 2, 4}, names{"n.west", "n.west", "n.east", "n.east", "m"}),
              (numbers{2, 3, 0, 1, 4}));
    EXPECT_TRUE(says(refusal(h, {0, 0, 2, 2, 4}, {"n", "n", "n.east", "n.east", "m"}),
                     {"topology.levels: host \"n\" may be any of the plan's n.east,n.west", "options::place"}));
}

// Ranks are threads of this process, all on one host.
TEST(places, ranks_are_put_in_the_plans_order) {
    loopback_world world(numbers{1});
    hierarchy h{{{.name = "node"}}, tree::uniform(numbers{1})};
    team one = world.join(0).ranks;
    const std::string own = host_name();
    h.hosts = {own};
    EXPECT_EQ(in_places(one, h, options::placement::by_node).size(), 1);
    h.hosts = {own + "x"};
    EXPECT_THROW(in_places(one, h, options::placement::by_node), plan_error);
    EXPECT_EQ(in_places(one, h, options::placement::anywhere).size(), 1);
    h.shape = tree::uniform(numbers{2});
    EXPECT_THROW(in_places(one, h, options::placement::anywhere), plan_error);
}

}  // namespace terrace::detail::test::placement_test
