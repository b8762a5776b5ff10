// What a job finds out about its nodes.

#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "topology/formats/synthetic.hpp"
#include "topology/job.hpp"

namespace terrace::detail::job_test {
namespace {

using numbers = std::vector<int>;
using shapes = std::vector<std::vector<int>>;

affinity threads(const numbers& bits) {
    affinity a{};
    for (const int b : bits) a[static_cast<std::size_t>(b / 64)] |= std::uint64_t{1} << (b % 64);
    return a;
}

std::vector<affinity> one_thread_each(const numbers& bits) {
    std::vector<affinity> all;
    for (const int b : bits) all.push_back(threads({b}));
    return all;
}

std::string names(const hierarchy& h) {
    std::string text;
    for (const level& l : h.levels) text += l.name + " ";
    return text;
}

// Two sockets of two groups of two cores.
job_node described(const std::vector<affinity>& ranks, numbers& order) {
    return node_of_job(synthetic_hardware("package:2 numa:1 l3:2 core:2"), ranks, order);
}

job_node described(const std::vector<affinity>& ranks) {
    numbers order;
    return described(ranks, order);
}

TEST(job_node, ranks_are_where_they_are_bound) {
    numbers order;
    const job_node n = described(one_thread_each({0, 4, 1, 5, 2, 6, 3, 7}), order);  // dealt out over the sockets
    EXPECT_EQ(names(n.levels), "l3 socket node ");
    EXPECT_EQ(n.levels.shape.children(), (shapes{{2, 2, 2, 2}, {2, 2}, {2}}));
    EXPECT_EQ(order, (numbers{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(job_node, levels_that_join_nothing_are_left_out) {
    const job_node n = described({threads({0, 1, 2, 3}), threads({4, 5, 6, 7})});  // a rank on each socket
    EXPECT_EQ(names(n.levels), "node ");
    EXPECT_EQ(n.levels.levels.front().medium, fabric::bus);
    EXPECT_EQ(n.levels.shape.children(), (shapes{{2}}));
}

TEST(job_node, is_one_level_where_ranks_are_not_bound) {
    numbers every(8), order;
    std::iota(every.begin(), every.end(), 0);
    for (const std::vector<affinity>& ranks : {std::vector(3, threads(every)), std::vector(3, affinity{}),
                                               one_thread_each({0, 1, 1}), one_thread_each({0, 1, 900})}) {
        const job_node n = described(ranks, order);
        EXPECT_EQ(names(n.levels), "node ");
        EXPECT_EQ(n.levels.shape.children(), (shapes{{3}}));
        EXPECT_EQ(order, (numbers{0, 1, 2}));
    }
}

TEST(job_node, travels_as_text) {
    job_node n = described(one_thread_each({0, 1, 4}));
    n.up = uplink{fabric::infiniband, 50e9, true};
    const std::string text = write_job_node(n);
    const job_node copy = read_job_node(text);
    EXPECT_EQ(write_job_node(copy), text);
    EXPECT_EQ(copy.levels.shape, n.levels.shape);
    ASSERT_TRUE(copy.up);
    EXPECT_EQ(copy.up->medium, fabric::infiniband);
    EXPECT_EQ(copy.up->bandwidth, 50e9);
}

TEST(job, equal_nodes_make_an_even_machine) {
    const job_node n = described(one_thread_each({0, 1, 4, 5}));
    const hierarchy h = machine_of_job(std::vector{n}, numbers{0, 0, 0}, {"a", "b", "c"});
    EXPECT_EQ(names(h), "socket node cluster ");
    EXPECT_EQ(h.shape.children(), (shapes{{2, 2, 2, 2, 2, 2}, {2, 2, 2}, {3}}));
    EXPECT_EQ(h.hosts.size(), 3U);
    EXPECT_EQ(h.levels.back().medium, fabric::ethernet);
    EXPECT_TRUE(h.levels.back().bandwidth_assumed);
}

// One node knows of sockets, the other runs three ranks anywhere; one has a faster way out.
TEST(job, unequal_nodes_are_kept_apart) {
    job_node with_sockets = described(one_thread_each({0, 1, 4, 5})), plain = described(std::vector(3, affinity{}));
    with_sockets.up = uplink{fabric::ethernet, 2.5e9, false};
    plain.up = uplink{fabric::ethernet, 1.25e9, false};
    const hierarchy h = machine_of_job(std::vector{plain, with_sockets}, numbers{0, 1, 0}, {"a", "b", "a"});
    EXPECT_EQ(names(h), "socket node cluster ");
    EXPECT_EQ(h.shape.children(), (shapes{{1, 1, 1, 2, 2, 1, 1, 1}, {3, 2, 3}, {3}}));
    EXPECT_EQ(h.levels.back().rates, (std::vector<double>{1.25e9, 2.5e9, 1.25e9}));
    EXPECT_FALSE(h.levels.back().bandwidth_assumed);
    EXPECT_TRUE(h.hosts.empty()) << "two nodes of one name";
}

TEST(job, one_rank_on_each_node_leaves_the_network) {
    const job_node n = described({affinity{}});
    EXPECT_EQ(names(machine_of_job(std::vector{n}, numbers{0, 0, 0}, {"a", "b", "c"})), "cluster ");
    EXPECT_EQ(names(machine_of_job(std::vector{n}, numbers{0}, {"a"})), "node ");
}

// As every rank does where no plan is given.
TEST(job_node, this_machine) {
    const affinity own = own_affinity();
    ASSERT_NE(own, affinity{});
    affinity first{}, second{};
    for (int b = 0; b < 1024; ++b)
        if (own[static_cast<std::size_t>(b / 64)] >> (b % 64) & 1) {
            if (first == affinity{}) first = threads({b});
            else if (second == affinity{}) second = threads({b});
        }
    if (second == affinity{}) GTEST_SKIP() << "takes two hardware threads";
    numbers order;
    const job_node n = this_node(std::vector{second, first}, order);
    EXPECT_EQ(n.levels.ranks(), 2);
    EXPECT_EQ(n.levels.depth(), 1);
}

}  // namespace
}  // namespace terrace::detail::job_test
