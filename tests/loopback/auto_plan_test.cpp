// What ranks do where no plan is given. Threads stand for ranks on several nodes, each of which is this machine.
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "api/auto_plan.hpp"
#include "api/placement.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test::auto_plan_test {

TEST(auto_plan, describes_all_nodes_and_gives_all_ranks_one_plan) {
    const std::vector<int> sizes{2, 1, 3};
    loopback_world world(sizes);
    std::vector<job> found(6);
    std::vector<std::string> ids(6);
    std::vector<std::vector<int>> nodes(6);
    {
        std::vector<std::jthread> ranks;
        for (int r = 0; r < 6; ++r)
            ranks.emplace_back([&, r] {
                const auto i = static_cast<std::size_t>(r);
                team all = world.join(r).ranks;
                found[i] = describe_job(all);
                all = in_order(std::move(all), found[i].place);
                nodes[i] = all.nodes();
                ids[i] = plan_job(found[i], all, {}).id();
            });
    }
    EXPECT_EQ(found.front().machine.node_sizes(), sizes);
    EXPECT_TRUE(found.front().machine.hosts.empty()) << "they have one name";
    std::set<int> places;
    for (const job& j : found) places.insert(j.place);
    EXPECT_EQ(places, (std::set<int>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1U);
    EXPECT_EQ(nodes.front(), (std::vector<int>{0, 0, 2, 3, 3, 3}));
}

// Ranks that give their places from last to first.
TEST(auto_plan, ranks_are_put_in_order) {
    const std::vector<int> sizes{2, 1};
    loopback_world world(sizes);
    std::vector<int> rank(3);
    std::vector<std::vector<int>> nodes(3);
    {
        std::vector<std::jthread> ranks;
        for (int r = 0; r < 3; ++r)
            ranks.emplace_back([&, r] {
                team all = in_order(world.join(r).ranks, 2 - r);
                rank[static_cast<std::size_t>(r)] = all.rank();
                nodes[static_cast<std::size_t>(r)] = all.nodes();
            });
    }
    EXPECT_EQ(rank, (std::vector<int>{2, 1, 0}));
    EXPECT_EQ(nodes.front(), (std::vector<int>{0, 1, 1}));
}

}  // namespace terrace::detail::test::auto_plan_test
