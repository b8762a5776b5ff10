// Host lists, host files, and the parts of machines that they select.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "support/refusal.hpp"
#include "topology/restrict.hpp"

namespace terrace::detail::hosts_test {
namespace {

using names = std::vector<std::string>;

TEST(hosts, expand) {
    EXPECT_EQ(expand_hosts("tux[0-3,7],login"), (names{"tux0", "tux1", "tux2", "tux3", "tux7", "login"}));
    EXPECT_EQ(expand_hosts("n[08-11]"), (names{"n08", "n09", "n10", "n11"}));
    EXPECT_EQ(expand_hosts("r[1-2]n[1,3]-ib.site"),
              (names{"r1n1-ib.site", "r1n3-ib.site", "r2n1-ib.site", "r2n3-ib.site"}));
    EXPECT_EQ(expand_hosts("[1-2]"), (names{"1", "2"}));
}

TEST(hosts, refuse) {
    for (const auto& [list, what] :
         std::vector<std::pair<std::string, std::string>>{{"", "a name expected at character 1"},
                                                          {"a,", "a name expected at character 3"},
                                                          {"a[", "a number expected at character 3"},
                                                          {"a[1", "']' is missing at the end"},
                                                          {"a[1-", "a number expected at character 5"},
                                                          {"a[3-1]", "range 3-1 runs backwards"},
                                                          {"a[x]", "a number expected at character 3"},
                                                          {"a b", "',' expected at character 2"},
                                                          {"a[0-999999999]", "more than 250000 names"},
                                                          {"a[0-999][0-999]", "more than 250000 names"},
                                                          {"a[0-9999999999]", "more than 9 digits"},
                                                          {std::string(300, 'x'), "more than 255 characters"}})
        EXPECT_NE(refusal_of([&list = list] { expand_hosts(list); }).find(what), std::string::npos)
            << refusal_of([&list = list] { expand_hosts(list); });
}

TEST(hosts, fold_is_the_inverse) {
    for (const char* list : {"tux[0-3,7],login", "n[08-11]", "n[8-11]", "a,b", "n[1-2],m3,n4", "n[099-101]",
                             "x[00-01]y,x2y", "node9,node[10-12,14]", "n[3,2,1]", "n[0-1],n[00-01]"})
        EXPECT_EQ(expand_hosts(fold_hosts(expand_hosts(list))), expand_hosts(list)) << fold_hosts(expand_hosts(list));
    EXPECT_EQ(fold_hosts(expand_hosts("tux[0-3,7],login")), "tux[0-3,7],login");
    EXPECT_EQ(fold_hosts(expand_hosts("node[01-48]")), "node[01-48]");
}

TEST(hosts, found_by_what_others_call_them) {
    const names hosts{"a", "b.east", "b.west", "c.east", "10.0.0.1", "7"};
    const host_index index(hosts, "the plan's");
    for (const auto& [name, found] : std::vector<std::pair<std::string, std::size_t>>{
             {"a", 0}, {"a.west", 0}, {"b.west", 2}, {"c", 3}, {"10.0.0.1", 4}, {"7", 5}, {"7.east", 5}})
        EXPECT_EQ(index.find(name), found) << name;
    for (const std::string name : {"d", "c.west", "10.0.0.2", "10", "7.0.0.1"})
        EXPECT_EQ(refusal_of([&] { index.find(name); }),
                  "host \"" + name + "\" is none of the plan's, a,b.east,b.west,c.east,10.0.0.1,7");
    EXPECT_EQ(refusal_of([&] { index.find("b"); }),
              "host \"b\" may be any of the plan's b.east,b.west; write its name in full");
}

TEST(hostfile, forms) {
    const auto hosts = parse_hostfile("# job\nn1 slots=2\n\nn2:4\nn[3-4]  max_slots=8 # two\n", "hosts");
    ASSERT_EQ(hosts.size(), 4u);
    EXPECT_EQ(hosts[0].slots, 2);
    EXPECT_EQ(hosts[1].slots, 4);
    EXPECT_EQ(hosts[2].name, "n3");
    EXPECT_EQ(hosts[2].slots, std::nullopt);
    for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
             {"", "hosts: names no hosts"},
             {"n1\nn2 slots=x\n", "hosts:2:4: \"x\" is not a number of slots from 1 to 1048576"},
             {"n1:0\n", "hosts:1:1: \"0\" is not"},
             {"n1 slots\n", "hosts:1:4: \"slots\" is not read"},
             {"n1 cpu=3\n", "hosts:1:4: \"cpu\" is not read"},
             {"slots = 3\n", "hosts:1:1: the line begins with no host"},
             {"n[1\n", "hosts:1:1: host list \"n[1\""}})
        EXPECT_EQ(refusal_of([&text = text] { parse_hostfile(text, "hosts"); }).find(what), 0u)
            << refusal_of([&text = text] { parse_hostfile(text, "hosts"); });
}

// PBS repeats a host's line for each slot.
TEST(hostfile, lines_of_one_host_add_up) {
    const auto hosts = parse_hostfile("n1\nn2\nn1\nn3 slots = 2\nn1\nn3 slots =3\n", "hosts");
    ASSERT_EQ(hosts.size(), 3u);
    EXPECT_EQ(hosts[0].slots, 3);
    EXPECT_EQ(hosts[1].slots, std::nullopt);
    EXPECT_EQ(hosts[2].slots, 5);
    EXPECT_EQ(parse_hostlist("n[1-2],n1").front().slots, std::nullopt);
}

// Returns two racks of three and two nodes, each with two sockets of 2 and 1 ranks.
hierarchy machine() {
    hierarchy h;
    for (const char* name : {"socket", "node", "rack", "core"}) {
        level l;
        l.name = name;
        l.medium = h.levels.size() < 2 ? fabric::bus : fabric::ethernet;
        h.levels.push_back(l);
    }
    h.shape = tree({{2, 1, 2, 1, 2, 1, 2, 1, 2, 1}, {2, 2, 2, 2, 2}, {3, 2}, {2}});
    h.hosts = {"a0", "a1", "a2.site", "b0", "b1"};
    return h;
}

TEST(restricted, keeps_the_nodes_of_a_job) {
    const hierarchy uneven = restricted(machine(), parse_hostlist("b1,a0,a2"));
    EXPECT_EQ(uneven.shape, tree({{2, 1, 2, 1, 2, 1}, {2, 2, 2}, {2, 1}, {2}}));
    EXPECT_EQ(uneven.hosts, (names{"a0", "a2.site", "b1"}));
    EXPECT_EQ(uneven.levels.size(), 4u);
}

TEST(restricted, drops_levels_that_join_nothing) {
    const hierarchy rack = restricted(machine(), parse_hostlist("a0,a1.elsewhere"));
    EXPECT_EQ(rack.shape, tree({{2, 1, 2, 1}, {2, 2}, {2}}));
    EXPECT_EQ(rack.levels.back().name, "rack");
    const hierarchy racks = restricted(machine(), parse_hostlist("a0,b0"));
    EXPECT_EQ(racks.shape, tree({{2, 1, 2, 1}, {2, 2}, {2}}));
    EXPECT_EQ(racks.levels.back().name, "core");
    const hierarchy one = restricted(machine(), parse_hostlist("b1"));
    EXPECT_EQ(one.shape, tree({{2, 1}, {2}}));
    EXPECT_EQ(one.hosts, (names{"b1"}));
}

TEST(restricted, slots_keep_the_first_ranks) {
    const hierarchy h = restricted(machine(), parse_hostfile("a0 slots=1\na1 slots=9\n", "hosts"));
    EXPECT_EQ(h.shape, tree({{1, 2, 1}, {1, 2}, {2}}));
    const hierarchy single = restricted(machine(), {{"a0", 1}});
    EXPECT_EQ(single.ranks(), 1);
    EXPECT_EQ(single.levels.size(), 1u);
}

TEST(restricted, names_a_host_that_is_not_there) {
    EXPECT_EQ(refusal_of([] { restricted(machine(), parse_hostlist("a0,c7")); }),
              "host \"c7\" is none of the machine's, a[0-1],a2.site,b[0-1]");
    EXPECT_EQ(refusal_of([] { restricted(machine(), parse_hostlist("a0,a2.site,a2")); }),
              "host \"a2\" is the machine's \"a2.site\", as another one before it is; name it once");
    hierarchy unnamed = machine();
    unnamed.hosts.clear();
    EXPECT_NE(refusal_of([&] { restricted(unnamed, parse_hostlist("a0")); }).find("nodes have no names"),
              std::string::npos);
}

}  // namespace
}  // namespace terrace::detail::hosts_test
