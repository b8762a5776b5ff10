// The rows of algorithms, which planners use, agree with the generators' messages. Incomplete rows are refused.

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "schedule/registry.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::test::registry_test {
namespace {

struct sent {
    int step = 0, from = 0, to = 0;
};

// Returns the programs of all positions of a group, with shards of 8 elements.
std::vector<schedule> programs_of(algorithm::generator emit, int size) {
    std::vector<range> shards;
    for (int i = 0; i < size; ++i) shards.push_back({8 * i, 8 * i + 8});
    const group all_ranks = group::numbered(size).with_shards(shards);
    std::vector<schedule> all;
    for (int position = 0; position < size; ++position) {
        builder out(position, size, collective::allreduce, 8 * size);
        emit(out, all_ranks.seen_from(position));
        all.push_back(out.finish());
    }
    return all;
}

std::vector<sent> messages_of(algorithm::generator emit, int size) {
    std::vector<sent> all;
    for (const schedule& s : programs_of(emit, size))
        for (const instr& i : s.instrs)
            if (i.what == action::send) all.push_back({i.step, s.rank, i.peer});
    return all;
}

std::vector<algorithm::generator> generators_of(const algorithm& a) {
    std::vector<algorithm::generator> all;
    const algorithm& direct = *find_algorithm("direct");
    for (const auto emit : {a.reduce_scatter, a.allgather, a.reduce, a.broadcast, a.allreduce, a.scatter, a.gather})
        if (emit != nullptr && (a.name == direct.name || (emit != direct.scatter && emit != direct.gather)))
            all.push_back(emit);
    return all;
}

// Returns the most parts into which instructions cut a shard, or the whole vector.
int parts_cut(algorithm::generator emit, int size, bool whole) {
    const int length = whole ? 8 * size : 8;
    std::map<std::int64_t, std::set<std::int64_t>> cuts;
    for (const schedule& s : programs_of(emit, size))
        for (const instr& i : s.instrs)
            for (const std::int64_t cut : {i.src.part.begin, i.src.part.end, i.dst.part.begin, i.dst.part.end})
                if (cut % length != 0) cuts[cut / length].insert(cut);
    std::size_t most = 0;
    for (const auto& [part, inside] : cuts) most = std::max(most, inside.size());
    return static_cast<int>(most) + 1;
}

std::set<int> directions(const std::vector<sent>& messages, int size) {
    std::set<int> result;
    for (const sent& m : messages) result.insert(wrap(m.to - m.from, size));
    return result;
}

// Returns the most messages that a position receives, or sends, whichever is less: 1 in a tree to or from a root.
int most_parents(const std::vector<sent>& messages) {
    std::map<int, int> out, in;
    for (const sent& m : messages) ++out[m.from], ++in[m.to];
    const auto most = [](const std::map<int, int>& counts) {
        int result = 0;
        for (const auto& [position, count] : counts) result = std::max(result, count);
        return result;
    };
    return std::min(most(out), most(in));
}

void expect_graph(const algorithm& a, algorithm::generator emit, int size) {
    const std::vector<sent> messages = messages_of(emit, size);
    const std::set<int> ways = directions(messages, size), forward{1}, back{size - 1}, both{1, size - 1};
    const std::string which = std::string(a.name) + " of " + std::to_string(size);
    if (a.graph == message_graph::node_rings) return;  // needs nodes: node_rings_test
    EXPECT_EQ(a.graph == message_graph::one_neighbour, ways == forward || ways == back) << which;
    EXPECT_EQ(a.graph == message_graph::both_neighbours, ways == both) << which;
    if (a.graph == message_graph::tree) {
        EXPECT_EQ(most_parents(messages), 1) << which;
        EXPECT_EQ(a.startups(size), ceil_log2(size)) << which;
    }
    if (a.graph == message_graph::all_at_once) {
        EXPECT_EQ(a.startups(size), 1) << which;
    }
}

TEST(registry, graphs_are_those_of_the_messages) {
    for (const algorithm& a : algorithms())
        for (const auto emit : generators_of(a))
            for (const int size : {5, 8})
                if (a.sends()) expect_graph(a, emit, size);
}

TEST(registry, generators_cut_shards_as_their_row_says) {
    for (const algorithm& a : algorithms()) {
        int most = 1;
        for (const auto emit : generators_of(a))
            for (const int size : {2, 5, 8})
                most = std::max(most, parts_cut(emit, size, emit == a.reduce || emit == a.broadcast));
        EXPECT_EQ(most, a.cuts) << a.name;
    }
}

// In an algorithm that passes data on, each message is sent by the receiver of the previous message.
TEST(registry, what_passes_on_sends_from_one_position_to_the_next) {
    for (const algorithm& a : algorithms()) {
        if (!a.sends() || a.graph == message_graph::node_rings) continue;  // rings pass data on only with a root
        for (const auto emit : generators_of(a)) {
            std::vector<sent> messages = messages_of(emit, 6);
            std::sort(messages.begin(), messages.end(), [](const sent& x, const sent& y) { return x.step < y.step; });
            bool passes_on = messages.size() == 5;
            for (std::size_t i = 1; i < messages.size(); ++i) passes_on &= messages[i].from == messages[i - 1].to;
            EXPECT_EQ(a.passes_on, passes_on) << a.name;
        }
    }
}

// Both halves reach every position, or leave it. No position passes on more than the whole vector.
TEST(registry, trees_pass_each_half_once_through_every_link) {
    const algorithm& trees = *find_algorithm("trees");
    for (int size = 2; size <= 70; ++size)
        for (const bool to_root : {false, true}) {
            std::map<int, int> near, far;  // halves by the end nearer to the root, and by the farther end
            for (const sent& m : messages_of(to_root ? trees.reduce : trees.broadcast, size))
                ++near[to_root ? m.to : m.from], ++far[to_root ? m.from : m.to];
            EXPECT_EQ(far.size(), at(size - 1)) << size;
            for (const auto& [position, halves] : far) EXPECT_EQ(halves, 2) << position << " of " << size;
            for (const auto& [position, halves] : near) EXPECT_LE(halves, 2) << position << " of " << size;
        }
}

TEST(registry, finds_algorithms_by_graph_and_mode) {
    EXPECT_EQ(known_algorithms().find(message_graph::one_neighbour, mode::scatter), find_algorithm("ring"));
    EXPECT_EQ(known_algorithms().find(message_graph::one_neighbour, mode::root), find_algorithm("chain"));
    EXPECT_EQ(known_algorithms().find(message_graph::both_neighbours, mode::root), nullptr);
    EXPECT_EQ(find_algorithm("spiral"), nullptr);
}

// A row without the number of dependent exchanges (`rounds`) is assumed to wait in every step.
TEST(registry, derives_startups_of_a_row_without_rounds) {
    std::vector<algorithm> rows(algorithms().begin(), algorithms().end());
    for (algorithm& a : rows) a.rounds = nullptr;
    const algorithm_table table(rows);
    for (const int size : {1, 2, 5, 16}) {
        EXPECT_EQ(table.find("ring")->startups(size), size - 1);
        EXPECT_EQ(table.find("halving")->startups(size), ceil_log2(size));
        EXPECT_EQ(table.find("tree")->startups(size), ceil_log2(size));
        EXPECT_GE(table.find("direct")->startups(size), size);  // the reduction is a separate step
    }
}

TEST(registry, rows_without_scatter_and_gather_have_those_of_direct) {
    algorithm row = *find_algorithm("halving");
    row.scatter = row.gather = nullptr;
    const algorithm_table table({row});
    EXPECT_EQ(table.find("halving")->scatter, find_algorithm("direct")->scatter);
    EXPECT_EQ(table.find("halving")->gather, find_algorithm("direct")->gather);
    EXPECT_EQ(find_algorithm("tree")->scatter, find_algorithm("direct")->scatter);
    EXPECT_EQ(find_algorithm("doubling")->scatter, nullptr);
}

std::string refusal_of_row(const algorithm& row) {
    return refusal_of<std::logic_error>([&] { const algorithm_table accepted({row}); });
}

TEST(registry, refuses_rows_that_lack_something) {
    const algorithm whole = *find_algorithm("direct");
    EXPECT_EQ(refusal_of_row(whole), "accepted");
    algorithm row = whole;
    row.allgather = nullptr;
    EXPECT_EQ(refusal_of_row(row), "algorithm \"direct\": mode scatter needs both reduce_scatter and allgather");
    row = whole;
    row.gather = nullptr;
    EXPECT_EQ(refusal_of_row(row), "algorithm \"direct\": a root needs both scatter and gather");
    row = whole;
    row.reduce = nullptr;
    EXPECT_EQ(refusal_of_row(row), "algorithm \"direct\": mode root needs both reduce and broadcast");
    algorithm nothing;
    nothing.name = "nothing";
    EXPECT_NE(refusal_of_row(nothing), "accepted");
    row = whole;
    row.name = "";
    EXPECT_EQ(refusal_of_row(row), "algorithm \"\": a row must have a name");
    EXPECT_THROW(algorithm_table({whole, whole}), std::logic_error);
}

}  // namespace
}  // namespace terrace::detail::test::registry_test
