// Several rings through the nodes of a group: their orders, messages and prices.

#include "schedule/node_rings.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/partition.hpp"
#include "schedule/collective_call.hpp"
#include "schedule/group_messages.hpp"
#include "schedule/registry.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::node_rings_test {
namespace {

// Returns a group of numbered ranks with shards of these numbers of elements.
group shards_of(const std::vector<int>& counts) {
    const std::vector<std::int64_t> all(counts.begin(), counts.end());
    return group::numbered(static_cast<int>(counts.size())).with_shards(side_by_side(all));
}

// Elements sent, by sender and receiver, and elements that each position reduces.
struct moved {
    std::map<std::pair<int, int>, double> sent;
    std::vector<double> reduced;
};

moved by_program(algorithm::generator emit, const group& g) {
    moved all{{}, std::vector<double>(g.shards().size())};
    for (int position = 0; position < g.size(); ++position) {
        builder out(position, g.size(), collective::allreduce, g.whole().count());
        emit(out, g.seen_from(position));
        for (const instr& i : out.finish().instrs) {
            const auto count = [](const operand& o) { return static_cast<double>(o.part.count()); };
            double& reduced = all.reduced[static_cast<std::size_t>(position)];
            if (i.what == action::send) all.sent[{position, i.peer}] += count(i.src);
            if (i.what == action::recv_reduce) reduced += count(i.dst);
            if (i.what == action::reduce) reduced += count(i.dst) * (i.sources + 1) / 3;
        }
    }
    return all;
}

void expect_moves(const group_moves& said, algorithm::generator emit, const group& g) {
    const moved real = by_program(emit, g);
    const auto whole = static_cast<double>(g.whole().count());
    std::map<std::pair<int, int>, double> sent;
    for (const group_message& m : said.messages)
        for (int turn = 0; turn < (said.circulant ? g.size() : 1); ++turn)
            sent[{wrap(m.from + turn, g.size()), wrap(m.to + turn, g.size())}] += m.part * m.times * whole;
    ASSERT_EQ(sent.size(), real.sent.size());
    for (const auto& [ends, count] : real.sent) EXPECT_NEAR(sent[ends], count, 1e-9);
    for (int i = 0; i < g.size(); ++i)
        EXPECT_NEAR(said.reduced_by(i) * whole, real.reduced[static_cast<std::size_t>(i)], 1e-9);
}

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

// Prices read programs in which equal steps occur once. Their moves equal those of whole programs.
TEST(node_rings, moves_are_what_programs_do) {
    const algorithm& rings = *find_algorithm("rings");
    for (const std::vector<int>& nodes : {std::vector{0, 0, 1, 1}, std::vector{0, 0, 0, 1, 1, 1},
                                          std::vector{0, 0, 0, 0, 1, 1}, std::vector{0, 1, 2}, std::vector{0, 0, 0}})
        for (const mode how : {mode::scatter, mode::root})
            for (const bool down : {false, true}) {
                const int size = static_cast<int>(nodes.size());
                const group g = shards_of(std::vector(nodes.size(), 12)).with_nodes(nodes);
                const algorithm::generator emit = down ? rings.down(how) : rings.up(how);
                expect_moves(read_programs(g, {emit, size - 1, false}, size), emit, g);
            }
}

// The same holds for other algorithms, for equal and unequal shards, and if one position is read for all.
TEST(group_messages, are_what_programs_do) {
    for (const algorithm& a : algorithms())
        for (const int size : {2, 3, 5, 8, 11})
            for (const bool equal : {true, false})
                for (const bool large : {false, true})
                    for (const mode how : {mode::scatter, mode::root, mode::replicate})
                        for (const algorithm::generator emit : {a.up(how), a.down(how)}) {
                            if (emit == nullptr) continue;
                            std::vector<int> counts(static_cast<std::size_t>(size), 12);
                            if (!equal) counts.back() = 24, counts.front() = 0;
                            const group g = shards_of(counts);
                            SCOPED_TRACE(a.name);
                            const group_moves said = read_programs(g, {emit, size, false}, large ? 1 : size);
                            EXPECT_TRUE(!said.circulant || (large && equal && how != mode::root));
                            EXPECT_TRUE(said.circulant || a.name != "ring" || !large || !equal);
                            expect_moves(said, emit, g);
                        }
}

}  // namespace
}  // namespace terrace::detail::test::node_rings_test
