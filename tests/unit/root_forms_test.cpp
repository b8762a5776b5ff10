// Broadcast and reduce with stages in mode scatter: their messages, as in docs/collectives.

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/compose.hpp"
#include "schedule/group_proof.hpp"
#include "schedule/lower.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::root_forms_test {
namespace {

// A message: from, to, first element, and the one after its last.
using message = std::tuple<int, int, std::int64_t, std::int64_t>;

std::vector<stage> scatter_then_root(const hierarchy& machine, const char* inner, const char* outer) {
    const auto group = [&](int l) { return machine.shape.uniform_size(l).value_or(0); };
    return {{{0}, group(0), mode::scatter, inner}, {{1}, group(1), mode::root, outer}};
}

// Returns the messages by phase: stage, and whether it is on the way down.
std::map<std::pair<int, bool>, std::set<message>> messages_of(const std::vector<schedule>& all) {
    std::map<std::pair<int, bool>, std::set<message>> found;
    for (const schedule& s : all)
        for (const instr& i : s.instrs)
            if (i.what == action::send)
                found[{s.phases[i.phase].stage, s.phases[i.phase].down}].emplace(s.rank, i.peer, i.src.part.begin,
                                                                                 i.src.part.end);
    return found;
}

// The pictures of docs/collectives/broadcast.md and reduce.md: two nodes of two ranks, root 1, four elements.
TEST(root_forms, are_those_of_the_pictures) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    const composition c = compose(machine, scatter_then_root(machine, "direct", "tree"), 4, 1, 1);
    const auto broadcast = messages_of(generate_all(c, collective::broadcast));
    ASSERT_EQ(broadcast.size(), 3u);
    EXPECT_EQ(broadcast.at({0, false}), (std::set<message>{{1, 0, 0, 4}}));
    EXPECT_EQ(broadcast.at({1, true}), (std::set<message>{{0, 2, 0, 2}, {1, 3, 2, 4}}));
    EXPECT_EQ(broadcast.at({0, true}), (std::set<message>{{2, 3, 0, 2}, {3, 2, 2, 4}}));
    const auto reduce = messages_of(generate_all(c, collective::reduce));
    ASSERT_EQ(reduce.size(), 3u);
    EXPECT_EQ(reduce.at({0, false}), (std::set<message>{{2, 3, 2, 4}, {3, 2, 0, 2}}));
    EXPECT_EQ(reduce.at({1, false}), (std::set<message>{{2, 0, 0, 2}, {3, 1, 2, 4}}));
    EXPECT_EQ(reduce.at({0, true}), (std::set<message>{{0, 1, 0, 4}}));
}

// All ranks of the root's node exchange equal parts with other nodes, also for nodes of unequal size and every root.
TEST(root_forms, share_what_leaves_a_node_among_its_ranks) {
    for (const tree& shape : {tree::uniform(std::vector{8, 4}), tree({{4, 2, 3}, {3}})}) {
        const hierarchy machine = machine_of(shape);
        constexpr std::int64_t count = 24 * 16;
        for (int root = 0; root < machine.ranks(); ++root) {
            const int node = shape.domain_of(0, root), size = shape.children(0, node);
            const composition c = compose(machine, scatter_then_root(machine, "halving", "chain"), count, 1, root);
            for (const collective what : {collective::broadcast, collective::reduce}) {
                std::map<int, std::int64_t> across;  // elements by rank of the root's node
                for (const schedule& s : generate_all(c, what))
                    for (const instr& i : s.instrs) {
                        if (i.what != action::send || shape.common_level(s.rank, i.peer) == 0) continue;
                        for (const int end : {s.rank, i.peer})
                            if (shape.domain_of(0, end) == node) across[end] += i.src.part.count();
                    }
                ASSERT_EQ(across.size(), static_cast<std::size_t>(size)) << to_string(what) << ", root " << root;
                for (const auto& [rank, elements] : across) EXPECT_EQ(elements, count / size);
            }
        }
    }
}

// With any algorithm, peers send nothing to the root, since they have only the root's data.
TEST(root_forms, send_nothing_to_the_root_of_a_broadcast_and_write_nothing_there) {
    const hierarchy machine = machine_of(tree({{4, 2, 3}, {3}}));
    for (const char* by : {"direct", "halving", "ring"})
        for (const mode outer : {mode::root, mode::scatter}) {
            std::vector<stage> stages = scatter_then_root(machine, by, "direct");
            stages[1].how = outer;
            const composition c = compose(machine, stages, 100, 1, 5);
            for (const schedule& s : generate_all(c, collective::broadcast))
                for (const instr& i : s.instrs) {
                    EXPECT_FALSE(i.what == action::send && i.peer == 5) << by;
                    if (s.rank == 5 && i.what != action::send) {
                        EXPECT_EQ(i.what, action::copy) << by;
                        EXPECT_EQ(i.src, (operand{buffer::send, i.dst.part})) << by;
                    }
                }
        }
}

// Inside its node the root sends each element once: with many chunks in flight, its link limits a broadcast.
TEST(root_forms, send_each_element_once_from_the_root_inside_its_node) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{8, 4}));
    constexpr std::int64_t count = 8 * 16;
    for (const char* by : {"direct", "halving", "ring"})
        for (const int root : {0, 3, 31}) {
            const composition c = compose(machine, scatter_then_root(machine, by, "chain"), count, 1, root);
            std::int64_t inside = 0;
            for (const instr& i : generate(c, collective::broadcast, root).instrs)
                if (i.what == action::send && machine.shape.common_level(root, i.peer) == 0)
                    inside += i.src.part.count();
            EXPECT_EQ(inside, count) << by << ", root " << root;
        }
}

// The reverse of the previous test, at each level: ranks that represent the root send nothing on the way up. On the way
// down they get each element once, from ranks that have added it up without them.
TEST(root_forms, bring_each_element_once_to_the_root_of_a_reduce) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{8, 4}));
    constexpr std::int64_t count = 8 * 16;
    for (const char* by : {"direct", "halving", "ring"})
        for (const mode outer : {mode::root, mode::scatter})
            for (const int root : {0, 3, 31}) {
                std::vector<stage> stages = scatter_then_root(machine, by, outer == mode::root ? "chain" : by);
                stages[1].how = outer;
                const composition c = compose(machine, stages, count, 1, root);
                std::int64_t inside = 0, outside = 0;
                for (const instr& i : generate(c, collective::reduce, root).instrs) {
                    EXPECT_NE(i.what, action::send) << by << ", root " << root;
                    if (i.what != action::recv_reduce) continue;
                    (machine.shape.common_level(root, i.peer) == 0 ? inside : outside) += i.dst.part.count();
                }
                EXPECT_EQ(inside, count) << by << ", root " << root;
                EXPECT_EQ(outside, count / 8) << by << ", root " << root;
            }
}

// An average is divided once for each element, in the reduction that adds the last contribution: on the root. In shared
// memory no rank represents the root, so sums are complete after the stage between nodes.
TEST(root_forms, complete_each_sum_once) {
    for (const tree& shape : {tree::uniform(std::vector{4, 3}), tree({{4, 2, 3}, {3}}), tree({{1, 3, 2}, {3}})}) {
        const hierarchy machine = machine_of(shape);
        for (const bool in_memory : {false, true})
            for (const mode outer : {mode::root, mode::scatter})
                for (int root = 0; root < machine.ranks(); ++root) {
                    std::vector<stage> stages = scatter_then_root(machine, in_memory ? "" : "halving", "direct");
                    stages[1].how = outer;
                    if (in_memory) stages[0].provider = provider::shared_memory;
                    const composition c = compose(machine, stages, 144, 1, root);
                    std::vector<int> times(144);
                    for (int rank = 0; rank < machine.ranks(); ++rank) {
                        // Like the runtime, uses only the rank's own groups.
                        const composition own = compose_for(rank, machine, stages, 144, 1, root);
                        for (const instr& i : generate(own, collective::reduce, rank).instrs)
                            for (std::int64_t e = i.dst.part.begin; i.completes && e < i.dst.part.end; ++e)
                                ++times[static_cast<std::size_t>(e)];
                    }
                    EXPECT_EQ(times, std::vector<int>(144, 1)) << "root " << root << (in_memory ? ", in memory" : "");
                }
    }
}

// Groups without the root scatter and gather nothing.
TEST(root_forms, only_the_domains_of_the_root_scatter) {
    const hierarchy machine = machine_of(tree({{2, 3}, {2}}));
    const composition c = compose(machine, scatter_then_root(machine, "direct", "direct"), 12, 1, 3);
    EXPECT_EQ(c.stages[0].groups[0].root(), group::no_root);
    EXPECT_EQ(c.stages[0].groups[1].root(), 1);
    for (const group& g : c.stages[1].groups) EXPECT_EQ(g.root(), 1);
    group_proof proof;
    EXPECT_FALSE(proof.find_fault(c));
    for (const std::size_t stage : {0u, 1u}) {
        composition wrong = c;
        group& g = wrong.stages[stage].groups.back();
        g = group(g.members(), g.shards(), 0, g.ordinal());
        const auto fault = proof.find_fault(wrong);
        ASSERT_TRUE(fault);
        EXPECT_NE(fault->find("its root is position 0, but the call's is in position 1"), std::string::npos) << *fault;
    }
}

// In shared memory each member reads its shard from the root before the allgather; in a reduce the root reads shards.
TEST(root_forms, go_by_the_root_in_shared_memory) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 2}));
    std::vector<stage> stages = scatter_then_root(machine, "", "direct");
    stages[0].provider = provider::shared_memory;
    const composition c = compose(machine, stages, 8, 1, 1);
    const capabilities can{.stages = ~0u, .domain = {0, 0, 1, 1}};
    const auto stages_of = [&](collective what, int rank) {
        std::vector<action> found;
        for (const instr& i : lower(generate(c, what, rank, can, buffer::scratch), can).instrs)
            if (is_stage(i.what)) found.push_back(i.what);
        return found;
    };
    EXPECT_EQ(stages_of(collective::broadcast, 0), (std::vector{action::stage_scatter, action::stage_allgather}));
    EXPECT_EQ(stages_of(collective::broadcast, 2), (std::vector{action::stage_allgather}));
    EXPECT_EQ(stages_of(collective::reduce, 0), (std::vector{action::stage_reduce_scatter, action::stage_gather}));
    EXPECT_EQ(stages_of(collective::reduce, 2), (std::vector{action::stage_reduce_scatter}));
}

}  // namespace
}  // namespace terrace::detail::test::root_forms_test
