// Descriptions of nodes that a job makes at creation.

#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/document.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "support/refusal.hpp"
#include "support/temporary.hpp"
#include "topology/addresses.hpp"
#include "topology/formats.hpp"
#include "topology/job.hpp"
#include "topology/nodes.hpp"
#include "topology/restrict.hpp"

namespace terrace::detail::job_test {
namespace {

using numbers = std::vector<int>;
using strings = std::vector<std::string>;
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

// Describes a node of two sockets of two groups of two cores, with these ranks.
job_node described(const std::vector<affinity>& ranks, numbers& order) {
    return node_of_job(read_node(*find_format("synthetic"), "package:2 numa:1 l3:2 core:2"), ranks, order);
}

job_node described(const std::vector<affinity>& ranks) {
    numbers order;
    return described(ranks, order);
}

TEST(job_node, ranks_are_where_they_are_bound) {
    numbers order;
    const job_node n = described(one_thread_each({0, 4, 1, 5, 2, 6, 3, 7}), order);  // the sockets by turns
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
    const hierarchy h = machine_of_job(std::vector{n}, numbers{0, 0, 0}, {"a", "b", "c"}, {}).machine;
    EXPECT_EQ(names(h), "socket node cluster ");
    EXPECT_EQ(h.shape.children(), (shapes{{2, 2, 2, 2, 2, 2}, {2, 2, 2}, {3}}));
    EXPECT_EQ(h.hosts.size(), 3U);
    EXPECT_EQ(h.levels.back().medium, fabric::ethernet);
    EXPECT_TRUE(h.levels.back().bandwidth_assumed);
}

// One node has sockets, the other three unbound ranks; one has a faster uplink.
TEST(job, unequal_nodes_are_kept_apart) {
    job_node with_sockets = described(one_thread_each({0, 1, 4, 5})), plain = described(std::vector(3, affinity{}));
    with_sockets.up = uplink{fabric::ethernet, 2.5e9, false};
    plain.up = uplink{fabric::ethernet, 1.25e9, false};
    const hierarchy h = machine_of_job(std::vector{plain, with_sockets}, numbers{0, 1, 0}, {"a", "b", "a"}, {}).machine;
    EXPECT_EQ(names(h), "socket node cluster ");
    EXPECT_EQ(h.shape.children(), (shapes{{1, 1, 1, 2, 2, 1, 1, 1}, {3, 2, 3}, {3}}));
    EXPECT_EQ(h.levels.back().rates, (std::vector<double>{1.25e9, 2.5e9, 1.25e9}));
    EXPECT_FALSE(h.levels.back().bandwidth_assumed);
    EXPECT_TRUE(h.hosts.empty()) << "two nodes of one name";
}

TEST(job, one_rank_on_each_node_leaves_the_network) {
    const job_node n = described({affinity{}});
    EXPECT_EQ(names(machine_of_job(std::vector{n}, numbers{0, 0, 0}, {"a", "b", "c"}, {}).machine), "cluster ");
    EXPECT_EQ(names(machine_of_job(std::vector{n}, numbers{0}, {"a"}, {}).machine), "node ");
}

TEST(node_address, says_the_levels_and_what_the_node_is_below) {
    struct row {
        std::string text;
        strings levels, within;
    };
    for (const row& r :
         {row{"top.leaf0.n0 switch.switch.node", {"spine", "leaf"}, {"top", "leaf0"}},
          row{"top.leaf0.n0", {"spine", "leaf"}, {"top", "leaf0"}},
          row{"s[0-1].s0.n0 switch.switch.node", {"spine", "leaf"}, {"s[0-1]", "s0"}},
          row{"a.b.c.d.n0", {"core-2", "core", "spine", "leaf"}, {"a", "b", "c", "d"}},
          row{"top..leaf.n0 switch.switch.switch.node", {"core", "spine", "leaf"}, {"top", "leaf", "leaf"}},
          row{"..n0 switch.switch.node", {"spine", "leaf"}, {"n0", "n0"}}, row{"b8.tux1 block.node", {"block"}, {"b8"}},
          row{"n0 node", {}, {}}, row{"n0", {}, {}},
          row{"eu-1.r7.n0 zone.rack.node", {"zone", "rack"}, {"eu-1", "r7"}}}) {
        const node_address found = parse_address(r.text);
        EXPECT_EQ(found.levels, r.levels) << r.text;
        EXPECT_EQ(found.within, r.within) << r.text;
    }
}

TEST(node_address, refuses_what_it_cannot_be_sure_of) {
    struct row {
        std::string text, why;
    };
    for (const row& r :
         {row{"rack.1.n0 switch.node", "has 3 parts, and its pattern 2"},
          row{"t:0:1:2.n0 torus:x:y:z.node", "\"torus:x:y:z\" cannot name a level"},
          row{"a.n0 cluster.node", "\"cluster\" cannot name a level"},
          row{"a.b.n0 rack.rack.node", "two levels are \"rack\""},
          row{"a.b switch.switch", "does not end with the node"}, row{"a. switch.node", "does not end with the node"},
          row{"a.n0 ", "has 2 parts, and its pattern 1"}, row{"a.n0 switch. node", "does not end with the node"},
          row{"a.\x1b[2Jn0", "not printed"}, row{"\xc3\xa4.n0", "not printed"},
          row{std::string(1001, 'a'), "more than 1000 characters"}})
        EXPECT_NE(refusal_of([&] { parse_address(r.text); }).find(r.why), std::string::npos)
            << r.text << ": " << refusal_of([&] { parse_address(r.text); });
}

// Returns a machine as text, with the hosts in their order.
std::string text_of(const hierarchy& h) { return write_hierarchy(h, 0); }

// Returns the machine of `terrace plan node.xml --network topology.conf` for these hosts.
hierarchy by_file(const std::string& conf, const job_node& node, const strings& hosts) {
    const std::filesystem::path file = temporary("addresses.conf");
    write_atomically(file, conf);
    const read_options options{.read_node = read_node, .hosts = hosts};
    const network_levels above = levels_of(read_network(*find_format("slurm"), file.string(), options), node.up, hosts);
    std::vector<job_host> job;
    for (const std::string& host : hosts) job.push_back({host, {}});
    return restricted(
        with_nodes(above.machine, std::vector{node}, numbers(static_cast<std::size_t>(above.machine.ranks()), 0)), job);
}

TEST(job, levels_by_addresses_are_those_of_the_network_file) {
    struct row {
        std::string conf;
        strings addresses;
    };
    const row tree{"SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\nSwitchName=top Switches=a,b\n",
                   {"top.a.n0 switch.switch.node", "top.a.n1 switch.switch.node", "top.b.n2 switch.switch.node",
                    "top.b.n3 switch.switch.node"}};
    const row fat_tree{
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\nSwitchName=s0 Switches=a,b\n"
        "SwitchName=s1 Switches=a,b\n",
        {"s[0-1].a.n0", "s[0-1].a.n1", "s[0-1].b.n2", "s[0-1].b.n3"}};
    const row heights{
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n2\nSwitchName=c Nodes=n3\n"
        "SwitchName=s Switches=b,c\nSwitchName=top Switches=a,s\n",
        {"top..a.n0", "top..a.n1", "top.s.b.n2", "top.s.c.n3"}};
    const row blocks{"BlockName=a Nodes=n[0-1]\nBlockName=b Nodes=n[2-3]\n",
                     {"a.n0 block.node", "a.n1 block.node", "b.n2 block.node", "b.n3 block.node"}};
    const row one_leaf{"SwitchName=a Nodes=n[0-3]\n", {"a.n0", "a.n1", "a.n2", "a.n3"}};
    job_node n = described(one_thread_each({0, 1, 4, 5}));
    const strings hosts{"n0", "n1", "n2", "n3"};
    for (const auto& up : {std::optional<uplink>(), std::optional(uplink{fabric::infiniband, 25e9, true}),
                           std::optional(uplink{fabric::ethernet, 12.5e9, false})})
        for (const row& r : {tree, fat_tree, heights, blocks, one_leaf}) {
            n.up = up;
            const job_machine found = machine_of_job(std::vector{n}, numbers{0, 0, 0, 0}, hosts, r.addresses);
            EXPECT_EQ(found.doubt, "");
            EXPECT_EQ(text_of(found.machine), text_of(by_file(r.conf, n, hosts)));
            EXPECT_EQ(found.levels_from.find(r.conf == blocks.conf ? "block by the job's" : "leaf"), 0U);
        }
}

// The launcher orders ranks arbitrarily. In the machine, nodes of one switch are neighbours.
TEST(job, nodes_of_one_switch_come_together) {
    const job_node n = described(one_thread_each({0, 1})), single = described({affinity{}});
    const job_machine found = machine_of_job(std::vector{n, single}, numbers{0, 0, 1, 1}, {"n0", "n2", "n1", "n3"},
                                             {"top.a.n0", "top.b.n2", "top.a.n1", "top.b.n3"});
    EXPECT_EQ(found.order, (numbers{0, 2, 1, 3}));
    EXPECT_EQ(found.machine.hosts, (strings{"n0", "n1", "n2", "n3"}));
    EXPECT_EQ(found.machine.node_sizes(), (numbers{2, 1, 2, 1}));
    EXPECT_EQ(found.levels_from, "leaf, spine by the job's addresses, rates assumed");
}

TEST(job, what_joins_no_switches_is_assumed) {
    const job_node n = described(one_thread_each({0, 1}));
    const job_machine found = machine_of_job(std::vector{n}, numbers{0, 0, 0, 0}, {"n0", "n1", "n2", "n3"},
                                             {"a.n0 rack.node", "a.n1 rack.node", "b.n2 rack.node", "b.n3 rack.node"});
    EXPECT_EQ(names(found.machine), "node rack cluster ");
    EXPECT_EQ(found.levels_from, "rack by the job's addresses, cluster assumed, rates assumed");
    EXPECT_EQ(found.doubt, "");
}

// Addresses that contradict each other are not used. `doubt` has the reason.
TEST(job, addresses_in_doubt_are_not_used) {
    struct row {
        strings addresses;
        std::string why;
    };
    const job_node n = described(one_thread_each({0, 1})), with_sockets = described(one_thread_each({0, 1, 4, 5}));
    const std::string deep = [] {
        std::string text;
        for (int l = 0; l < 17; ++l) text += "s.";
        return text;
    }();
    for (const row& r :
         {row{{"top.a.n0", "", "top.b.n2"},
              "not all hosts have an address: host \"n0\" has \"top.a.n0\", host \"n1\" has \"\""},
          row{{"", "top.a.n1", "top.b.n2"}, "host \"n0\" has \"\", host \"n1\" has \"top.a.n1\""},
          row{{"top.a.n0", "a.n1", "b.n2"}, "different levels: host \"n0\" has \"top.a.n0\", host \"n1\" has \"a.n1\""},
          row{{"a.n0 block.node", "a.n1 rack.node", "a.n2 block.node"}, "host \"n1\" has \"a.n1 rack.node\""},
          row{{"a.n0", "a.n0", "a.n0"}, "two hosts have one address: host \"n0\" has \"a.n0\", host \"n1\""},
          row{{"a.n0", std::string("a.n1\0b.n1", 9), "a.n2"},
              "ranks of host \"n1\" have the addresses \"a.n1\" and \"b.n1\""},
          row{{"a.n0", std::string("\0b.n1", 5), "a.n2"}, "host \"n1\" have the addresses \"\" and \"b.n1\""},
          row{{"a.n0", "a.\x1b", "a.n2"}, "host \"n1\": an address with a character that is not printed"},
          row{{"a.n0 socket.node", "b.n1 socket.node", "b.n2 socket.node"}, "two levels are named \"socket\""},
          row{{deep + "n0", deep + "n1", "t." + deep.substr(2) + "n2"},
              "host \"n0\": an address of 18 parts is too deep"}}) {
        const job_machine found =
            machine_of_job(std::vector{with_sockets}, numbers{0, 0, 0}, {"n0", "n1", "n2"}, r.addresses);
        EXPECT_NE(found.doubt.find(r.why), std::string::npos) << found.doubt;
        EXPECT_EQ(names(found.machine), "socket node cluster ") << r.why;
        EXPECT_EQ(found.levels_from, "cluster assumed");
        EXPECT_EQ(found.order, (numbers{0, 1, 2}));
    }
    EXPECT_EQ(machine_of_job(std::vector{n}, numbers{0, 0}, {"n0", "n1"}, {"n0 node", "n1 node"}).levels_from,
              "cluster assumed");
    EXPECT_EQ(machine_of_job(std::vector{n}, numbers{0}, {"n0"}, {"a.n0"}).levels_from, "");
}

// Describes this machine, as every rank does if no plan is given.
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
