#include "machine/nics.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "machine/hierarchy.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::nics_test {
namespace {

// Reads a machine with two nodes of four ranks, or with the nodes of a tree.
hierarchy read(const std::string& nics, const std::string& more = "", const std::string& tree = "") {
    const std::string sizes = tree.empty() ? ", size: 4" : "", outer = tree.empty() ? ", size: 2" : "";
    return read_hierarchy(document::parse("levels:\n  - {name: node" + sizes + ", fabric: shm}\n  - {name: cluster" +
                                              outer + ", fabric: ethernet, nics: " + nics + more + "}\n" + tree,
                                          "f"));
}

std::string error_of(const std::string& nics, const std::string& more = "", const std::string& tree = "") {
    return refusal_of<input_error>([&] { read(nics, more, tree); });
}

std::string written(const hierarchy& h) { return write_nics(h.nics, h.node_sizes()); }

TEST(nics, ranks_share_the_nics_of_their_node) {
    const hierarchy h = read("{count: 2, bandwidth: 250 Mbit/s}");
    EXPECT_EQ(h.nics.of_rank, (std::vector{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(h.nics.first, (std::vector{0, 2, 4}));
    EXPECT_EQ(h.nics.rail_of(3), 1);
    EXPECT_EQ(h.levels[1].bandwidth, 62.5e6);
    EXPECT_FALSE(h.levels[1].bandwidth_assumed);
    EXPECT_EQ(read("{count: 3, bandwidth: 1 GB/s}").nics.of_rank, (std::vector{0, 0, 1, 2, 3, 3, 4, 5}));
}

TEST(nics, a_node_is_as_fast_as_its_own_cap_or_the_nics_in_use) {
    EXPECT_EQ(read("{count: 4, bandwidth: 1 GB/s}", ", bandwidth: 3 GB/s").levels[1].bandwidth, 3e9);
    EXPECT_EQ(read("{count: 4, bandwidth: 1 GB/s}", ", bandwidth: 30 GB/s").levels[1].bandwidth, 4e9);
    EXPECT_EQ(read("{count: 2, bandwidth: 1 GB/s, ranks: [1, 1, 1, 1]}").levels[1].bandwidth, 1e9);
    const hierarchy shared = read("{count: 4}", ", bandwidth: 8 GB/s");
    EXPECT_EQ(shared.nics.rates, std::vector<double>(8, 2e9));
    const hierarchy assumed = read("{count: 4}");
    EXPECT_TRUE(assumed.levels[1].bandwidth_assumed);
    EXPECT_EQ(assumed.levels[1].bandwidth, 5e9);
}

TEST(nics, nics_and_nodes_may_differ) {
    const hierarchy slow = read("[1 GB/s, 1 GB/s, 500 MB/s, 1 GB/s]");
    EXPECT_EQ(slow.nics.rate(6), 5e8);
    EXPECT_EQ(slow.levels[1].bandwidth, 3.5e9);
    const hierarchy one = read("{count: 2, bandwidth: [1 GB/s, 1 GB/s, 1 GB/s, 500 MB/s]}");
    EXPECT_EQ(one.levels[1].rates, (std::vector{2e9, 1.5e9}));
    const hierarchy uneven = read("{count: [4, 4, 2], bandwidth: 1 GB/s}", "", "tree: [4, 4, 2]\n");
    EXPECT_EQ(uneven.levels[1].rates, (std::vector{4e9, 4e9, 2e9}));
    EXPECT_EQ(uneven.nics.rail_count(), 4);
    EXPECT_EQ(uneven.nics.node_of(9), 2);
}

TEST(nics, what_is_written_reads_back_equal) {
    for (const std::string text :
         {"{count: 4, bandwidth: 250 Mbit/s}", "{count: 2, bandwidth: 1 GB/s, ranks: [0, 1, 1, 1]}",
          "{count: 2, bandwidth: [1 GB/s, 4 Gbit/s]}", "{count: 2, bandwidth: [1 GB/s, 1 GB/s, 1 GB/s, 4 Gbit/s]}",
          "{count: [4, 2], bandwidth: 1 GB/s}", "{count: [2, 1], bandwidth: [1 GB/s, 2 GB/s, 3 GB/s]}",
          "{count: 2, bandwidth: 1 GB/s, ranks: [0, 1, 1, 1, 0, 0, 1, 1], rails: true, spine: 4 Gbit/s}",
          "{count: 1, bandwidth: 1 GB/s}"}) {
        const hierarchy h = read(text);
        EXPECT_EQ(written(h), text);
        const hierarchy again = read_hierarchy(document::parse(write_hierarchy(h, 0), "f"));
        EXPECT_EQ(again.nics, h.nics) << text;
        EXPECT_EQ(write_hierarchy(again, 0), write_hierarchy(h, 0));
    }
    EXPECT_EQ(written(read("[1 GB/s, 2 GB/s]")), "{count: 2, bandwidth: [1 GB/s, 2 GB/s]}");
}

TEST(nics, part_of_a_machine_keeps_those_of_its_nodes) {
    const hierarchy h = read("{count: [4, 2], bandwidth: 1 GB/s, rails: true}");
    const hierarchy second = part_of(h, std::vector{0, 1, 6, 7});
    EXPECT_EQ(second.nics.first, (std::vector{0, 4, 6}));
    EXPECT_EQ(second.nics.of_rank, (std::vector{0, 1, 5, 5}));
    EXPECT_TRUE(second.nics.rails);
    EXPECT_EQ(second.levels[1].rates, (std::vector{2e9, 1e9}));
    EXPECT_TRUE(without_idle_levels(part_of(h, std::vector{4, 5})).nics.empty());
}

TEST(nics, messages_between_rails_cross_the_spine) {
    const nic_set rails = read("{count: 2, bandwidth: 1 GB/s, rails: true}").nics;
    EXPECT_FALSE(rails.crosses_spine(0, 2));
    EXPECT_TRUE(rails.crosses_spine(1, 2));
    EXPECT_FALSE(read("{count: 2, bandwidth: 1 GB/s}").nics.crosses_spine(1, 2));
}

TEST(nics, text_for_people) {
    EXPECT_EQ(nics_text(read("{count: 4, bandwidth: 1 GB/s}").nics), "4 NICs of 1 GB/s");
    EXPECT_EQ(nics_text(read("{count: [1, 2], bandwidth: [1 GB/s, 2 GB/s, 1 GB/s], rails: true, spine: 3 GB/s}").nics),
              "1-2 NICs of 1 GB/s to 2 GB/s on rails, spine 3 GB/s");
}

TEST(nics, errors_say_where_and_what) {
    const auto holds = [](const std::string& message, const std::string& part) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
        EXPECT_EQ(message.find("f:3:"), 0U) << message;
    };
    holds(error_of("{bandwidth: 1 GB/s}"), "how many NICs");
    holds(error_of("{count: 0}"), "");
    holds(error_of("{count: 65}"), "");
    holds(error_of("{count: [1, 2, 3]}"), "3 counts for 2 nodes");
    holds(error_of("{count: 2, bandwidth: [1 GB/s, 1 GB/s, 1 GB/s]}"), "3 bandwidths, but the nodes have 4 NICs");
    holds(error_of("{count: 2, bandwidth: cat}"), "cat");
    holds(error_of("{count: 2, ranks: [0, 1]}"), "NICs of 2 ranks, but there are 8");
    holds(error_of("{count: 2, ranks: [0, 1, 2, 0]}"), "");
    holds(error_of("{count: 2, rails: maybe}"), "true or false");
    holds(error_of("{count: 2, spine: 1 GB/s}"), "add rails: true");
    holds(error_of("{count: 2, cards: 3}"), "cards");
    holds(error_of("{count: 2}", ", links: ring"), "torus");
    EXPECT_NE(error_of("[]").find("f:3:"), std::string::npos);
    const auto at_node = [] {
        read_hierarchy(document::parse("levels: [{name: node, size: 2, fabric: shm, nics: {count: 2}}]", "f"));
    };
    EXPECT_THROW(at_node(), input_error);
}

}  // namespace
}  // namespace terrace::detail::nics_test
