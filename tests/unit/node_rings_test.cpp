// Several rings through the nodes of a group: their orders, what they send, and what prices say of it.

#include "schedule/node_rings.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/partition.hpp"
#include "planner/pattern.hpp"
#include "schedule/registry.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::node_rings_test {
namespace {

using orders = std::vector<std::vector<int>>;

TEST(node_rings, enter_where_they_left_the_node_before) {
    EXPECT_EQ(node_rings({0, 0, 0, 1, 1, 1}, 6), (orders{{0, 1, 2, 5, 4, 3}, {1, 2, 0, 3, 5, 4}, {2, 0, 1, 4, 3, 5}}));
    EXPECT_EQ(node_rings({7, 7, 7, 9}, 4), (orders{{0, 1, 2, 3}, {1, 2, 0, 3}, {2, 0, 1, 3}}));
}

TEST(node_rings, are_one_where_nodes_are_unknown_or_have_one_position) {
    EXPECT_EQ(node_rings({}, 3), (orders{{0, 1, 2}}));
    EXPECT_EQ(node_rings({4, 5, 6}, 3), (orders{{0, 1, 2}}));
    EXPECT_EQ(node_rings({4}, 1), (orders{{0}}));
}

TEST(node_rings, every_position_sends_to_another_node_once) {
    const std::vector<int> nodes{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    std::vector<int> leaves(nodes.size()), enters(nodes.size());
    for (const std::vector<int>& order : node_rings(nodes, 16)) {
        EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), nodes.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
            const auto from = static_cast<std::size_t>(order[i]), to = static_cast<std::size_t>(order[(i + 1) % 16]);
            if (nodes[from] == nodes[to]) continue;
            EXPECT_EQ(from % 4, to % 4) << "it stays on its rail";
            ++leaves[from], ++enters[to];
        }
    }
    EXPECT_EQ(leaves, std::vector<int>(16, 1));
    EXPECT_EQ(enters, std::vector<int>(16, 1));
}

// Parts of the vector by sender and receiver, and what each position adds to others.
struct moved {
    std::map<std::pair<int, int>, double> sent;
    std::vector<double> reduced;
};

moved by_program(algorithm::generator emit, const std::vector<int>& nodes) {
    const int size = static_cast<int>(nodes.size());
    std::vector<range> shards;
    for (int i = 0; i < size; ++i) shards.push_back({12 * i, 12 * i + 12});
    const group g = group::numbered(size).with_shards(shards).with_nodes(nodes);
    moved all{{}, std::vector<double>(nodes.size())};
    for (int position = 0; position < size; ++position) {
        builder out(position, size, collective::allreduce, 12 * size);
        emit(out, g.seen_from(position));
        for (const instr& i : out.finish().instrs) {
            const auto part = [&](const operand& o) { return static_cast<double>(o.part.count()) / (12.0 * size); };
            if (i.what == action::send) all.sent[{position, i.peer}] += part(i.src);
            if (i.what == action::recv_reduce) all.reduced[static_cast<std::size_t>(position)] += part(i.dst);
        }
    }
    return all;
}

TEST(node_rings, patterns_are_what_programs_do) {
    const algorithm& rings = *find_algorithm("rings");
    for (const std::vector<int>& nodes : {std::vector{0, 0, 1, 1}, std::vector{0, 0, 0, 1, 1, 1},
                                          std::vector{0, 0, 0, 0, 1, 1}, std::vector{0, 1, 2}, std::vector{0, 0, 0}})
        for (const mode how : {mode::scatter, mode::root})
            for (const bool down : {false, true}) {
                const algorithm::generator emit = down ? rings.down(how) : rings.up(how);
                const moved real = by_program(emit, nodes);
                pattern_book patterns;
                const pattern& said =
                    patterns.of(rings, emit, {.size = static_cast<int>(nodes.size()), .nodes = nodes});
                std::map<std::pair<int, int>, double> sent;
                int startups = 0;
                for (const exchange& e : said.exchanges) {
                    startups += e.startups;
                    for (const exchange::message& m : e.messages) sent[{m.from, m.to}] += m.part * e.times;
                }
                EXPECT_EQ(startups, static_cast<int>(nodes.size()) - 1);
                ASSERT_EQ(sent.size(), real.sent.size());
                for (const auto& [ends, part] : real.sent) EXPECT_NEAR(sent[ends], part, 1e-9);
                ASSERT_EQ(said.reduced.size(), nodes.size());
                for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_NEAR(said.reduced[i], real.reduced[i], 1e-9);
            }
}

}  // namespace
}  // namespace terrace::detail::test::node_rings_test
