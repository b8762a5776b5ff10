// Plans that ranks make if none is given. Threads simulate ranks on several nodes, each with this machine's hardware.
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "api/creation/auto_plan.hpp"
#include "api/creation/placement.hpp"
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
                found[i] = describe_job(all, {});
                all = *all.split(0, found[i].place);
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

struct planned_job {
    hierarchy machine;
    std::string plan_name;
    std::vector<int> places;
    std::vector<std::string> warnings;
};

planned_job job_with(const std::vector<int>& sizes, const std::vector<std::string>& addresses) {
    loopback_world world(sizes);
    planned_job all;
    all.places.resize(addresses.size());
    {
        std::vector<std::jthread> ranks;
        for (std::size_t r = 0; r < addresses.size(); ++r)
            ranks.emplace_back([&, r] {
                options o;
                o.topology_address = addresses[r];
                o.log = [&](log_level, std::string_view line) { all.warnings.emplace_back(line); };
                team own = world.join(static_cast<int>(r)).ranks;
                const job found = describe_job(own, o);
                own = *own.split(0, found.place);
                const plan made = plan_job(found, own, o);
                all.places[r] = found.place;
                if (r == 0) all.machine = found.machine;
                if (r == 0) all.plan_name = made.name();
            });
    }
    return all;
}

// Nodes 0 and 2 are on one switch, 1 and 3 on another.
TEST(auto_plan, has_levels_above_nodes_by_addresses) {
    const std::vector<std::string> of_nodes{"top.a.n0", "top.b.n1", "top.a.n2", "top.b.n3"};
    const planned_job j =
        job_with({2, 1, 1, 2}, {of_nodes[0], of_nodes[0], of_nodes[1], of_nodes[2], of_nodes[3], of_nodes[3]});
    EXPECT_EQ(j.machine.node_sizes(), (std::vector<int>{2, 1, 1, 2}));
    EXPECT_EQ(j.machine.levels.back().name, "spine");
    EXPECT_EQ(j.machine.shape.children().back(), (std::vector<int>{2}));
    EXPECT_EQ(std::set<int>(j.places.begin(), j.places.begin() + 2), (std::set<int>{0, 1}));
    EXPECT_EQ(j.places[3], 2);
    EXPECT_EQ(j.places[2], 3);
    EXPECT_EQ(std::set<int>(j.places.begin() + 4, j.places.end()), (std::set<int>{4, 5}));
    EXPECT_EQ(j.plan_name, "found at creation; leaf, spine by the job's addresses, rates assumed");
    EXPECT_TRUE(j.warnings.empty()) << j.warnings.front();
}

TEST(auto_plan, warns_of_ranks_whose_addresses_differ_on_one_node) {
    const planned_job j = job_with({1, 2}, {"a.n0", "a.n1", "b.n1"});
    EXPECT_EQ(j.plan_name, "found at creation; cluster assumed");
    ASSERT_EQ(j.warnings.size(), 1U);
    EXPECT_NE(j.warnings[0].find("have the addresses \"a.n1\" and \"b.n1\""), std::string::npos) << j.warnings[0];
    EXPECT_EQ(job_with({2, 1}, {"", "a.n0", "a.n1"}).warnings.size(), 1U);
    EXPECT_EQ(job_with({1, 1}, {"a.n0", std::string(5000, 'x')}).warnings.size(), 1U);
    EXPECT_EQ(job_with({1, 1}, {"", ""}).warnings.size(), 0U);
}

// The ranks ask for the reverse order.
TEST(auto_plan, ranks_are_put_in_order) {
    const std::vector<int> sizes{2, 1};
    loopback_world world(sizes);
    std::vector<int> rank(3);
    std::vector<std::vector<int>> nodes(3);
    {
        std::vector<std::jthread> ranks;
        for (int r = 0; r < 3; ++r)
            ranks.emplace_back([&, r] {
                team all = *world.join(r).ranks.split(0, 2 - r);
                rank[static_cast<std::size_t>(r)] = all.rank();
                nodes[static_cast<std::size_t>(r)] = all.nodes();
            });
    }
    EXPECT_EQ(rank, (std::vector<int>{2, 1, 0}));
    EXPECT_EQ(nodes.front(), (std::vector<int>{0, 1, 1}));
}

}  // namespace terrace::detail::test::auto_plan_test
