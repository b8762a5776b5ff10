// Reproducible reductions: the tree, its nodes, and stages that reduce by the tree, proved by the verifier.

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "base/index.hpp"
#include "schedule/call_schedule.hpp"
#include "schedule/tree_stages.hpp"
#include "schedule/verify.hpp"
#include "support/dice.hpp"
#include "support/programs.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::tree_stages_test {

namespace {

std::vector<int> in_order(int ranks) {
    std::vector<int> places(at(ranks));
    std::iota(places.begin(), places.end(), 0);
    return places;
}

// Returns places of the ranks in the tree: in order, reversed, alternating, and random.
std::vector<std::vector<int>> trees_of(int ranks, dice& d) {
    std::vector<int> backwards = in_order(ranks), turns, any = in_order(ranks);
    std::reverse(backwards.begin(), backwards.end());
    for (int r = 0; r < ranks; ++r) turns.push_back(r % 2 == 0 ? r / 2 : (ranks + r) / 2);
    for (std::size_t r = any.size(); r-- > 1;) std::swap(any[r], any[d.below(r + 1)]);
    return {in_order(ranks), backwards, turns, any};
}

// Returns a call of which all stages send messages.
program_of_all sent_program(const hierarchy& machine, const std::vector<stage>& stages, const collective_call& call) {
    const call_layout layout(machine, stages, call);
    program_of_all made{
        text(machine.shape) + ": " + describe(machine, stages) + ", " + std::string(to_string(call.what)),
        {},
        {.root = call.root, .blocks = call.blocks, .tree = call.tree}};
    for (int r = 0; r < machine.ranks(); ++r) made.schedules.push_back(layout.schedule_of(r));
    return made;
}

collective_call call_of(collective what, int ranks, std::vector<int> tree, int scale = 1) {
    collective_call made{
        .what = what, .count = scale * (2 * ranks + 3), .root = ranks / 2, .element = 64, .tree = std::move(tree)};
    if (row_of(what).blocks) made.blocks = equal_blocks(ranks, 3 * scale);
    return made;
}

void expect_proved(const program_of_all& p) {
    const auto found = find_fault(p.schedules, p.of);
    ASSERT_FALSE(found) << p.name << ": " << *found;
}

void expect_refused(program_of_all p, std::vector<int> tree) {
    p.of.tree = std::move(tree);
    const auto found = find_fault(p.schedules, p.of);
    ASSERT_TRUE(found) << p.name;
    EXPECT_NE(found->find("not those of the tree"), std::string::npos) << *found;
}

std::vector<stage> flat(int ranks, std::string_view by) { return {run_by({{0}, ranks, mode::scatter}, by)}; }

}  // namespace

TEST(reduction_tree, a_node_has_the_largest_power_of_two_on_its_left) {
    EXPECT_EQ((tree_node{0, 2}).middle(), 1);
    EXPECT_EQ((tree_node{0, 8}).middle(), 4);
    EXPECT_EQ((tree_node{8, 13}).left(), (tree_node{8, 12}));
    EXPECT_EQ((tree_node{8, 17}).right(), (tree_node{16, 17}));
}

TEST(reduction_tree, ranks_reduce_the_largest_nodes_among_themselves) {
    using nodes = std::vector<tree_node>;
    EXPECT_EQ(largest_nodes(std::vector{0, 1, 2, 3}, 8), (nodes{{0, 4}}));
    EXPECT_EQ(largest_nodes(std::vector{0, 1, 2}, 6), (nodes{{0, 2}, {2, 3}}));
    EXPECT_EQ(largest_nodes(std::vector{3, 4, 5}, 6), (nodes{{3, 4}, {4, 6}}));
    EXPECT_EQ(largest_nodes(std::vector{0, 2, 4}, 6), (nodes{{0, 1}, {2, 3}, {4, 5}}));
    EXPECT_EQ(largest_nodes(in_order(6), 6), (nodes{{0, 6}}));
}

TEST(reduction_tree, equal_parts_are_like_leaves) {
    using nodes = std::vector<tree_node>;
    EXPECT_TRUE(are_like_leaves({0, 24}, nodes{{0, 8}, {8, 16}, {16, 24}}));
    EXPECT_TRUE(are_like_leaves({4, 6}, nodes{{4, 5}, {5, 6}}));
    EXPECT_TRUE(are_like_leaves({0, 6}, nodes{{0, 4}, {4, 6}}));
    EXPECT_FALSE(are_like_leaves({0, 6}, nodes{{0, 2}, {2, 4}, {4, 5}, {5, 6}}) !=
                 are_like_leaves({0, 4}, nodes{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
    EXPECT_FALSE(are_like_leaves({0, 6}, nodes{{0, 2}, {2, 3}, {3, 4}, {4, 6}}));
}

// Machines of many shapes with up to 16 ranks, over messages and in shared memory, for any places of ranks in the tree.
TEST(tree_stages, every_shape_reduces_by_the_tree) {
    dice d(1);
    int proofs = 0;
    for (const int ranks : {1, 2, 3, 5, 6, 8, 11, 16})
        for (const hierarchy& machine : machines_of_size(ranks))
            for (const collective what : {collective::allreduce, collective::reduce_scatter, collective::reduce})
                for (const std::vector<int>& tree : trees_of(ranks, d)) {
                    const std::vector<stage> stages = random_stages(machine, what, d);
                    const collective_call call = call_of(what, ranks, tree, d.coin() ? 1 : 3000);
                    expect_proved(sent_program(machine, stages, call));
                    std::vector<buffer> homes(at(ranks), buffer::scratch);
                    if (d.coin()) homes.assign(at(ranks), buffer::recv);
                    expect_proved(staged_program(machine, stages, call, homes));
                    proofs += 2;
                    if (HasFailure()) return;
                }
    EXPECT_GT(proofs, 200);
}

// Racks of 5 and 4 ranks have two and three partial results. Links between them carry equal data in both directions.
TEST(tree_stages, two_members_balance_their_links) {
    const hierarchy machine = machine_of(tree({{2, 2, 1, 3, 1}, {3, 2}, {2}}));
    const int ranks = machine.ranks();
    const auto between_racks = [&](collective what, mode outer, double expected) {
        const std::vector<stage> stages{run_by({{0, 1}, 0, mode::scatter}, "direct"),
                                        run_by({{2}, 2, outer}, "direct")};
        collective_call call = call_of(what, ranks, in_order(ranks), 3000);
        const program_of_all p = sent_program(machine, stages, call);
        expect_proved(p);
        std::array<double, 2> sent{};
        for (int r = 0; r < ranks; ++r)
            for (const instr& i : p.schedules[at(r)].instrs)
                if (i.what == action::send && (r < 5) != (i.peer < 5) && !p.schedules[at(r)].phases[i.phase].down)
                    sent[r < 5 ? 0 : 1] += static_cast<double>(i.src.part.count());
        const auto all = static_cast<double>(row_of(what).blocks ? call.blocks.back().end : call.count);
        EXPECT_NEAR(sent[0] / all, expected, 0.02) << to_string(what);
        EXPECT_NEAR(sent[1] / all, expected, 0.02) << to_string(what);
    };
    between_racks(collective::reduce_scatter, mode::scatter, 11.5 / 9);  // without balance 8/9 and 15/9
    between_racks(collective::allreduce, mode::replicate, 5.0 / 3);
    between_racks(collective::reduce, mode::root, 1.5);
}

// Routes over a torus use its dimensions in different orders.
TEST(tree_stages, routes_reduce_by_the_tree) {
    dice d(2);
    for (const hierarchy& machine : tori())
        for (int times = 0; times < 4; ++times) {
            const std::vector<stage> stages = random_stages(machine, collective::allreduce, d);
            for (const std::vector<int>& tree : trees_of(machine.ranks(), d))
                expect_proved(sent_program(machine, stages, call_of(collective::allreduce, machine.ranks(), tree)));
            if (HasFailure()) return;
        }
}

// Nodes whose number of ranks is a power of two keep stages in shared memory. In other nodes ranks send messages.
TEST(tree_stages, even_nodes_keep_their_shared_memory) {
    const auto stages_in = [](const std::vector<std::vector<int>>& children) {
        const hierarchy machine = machine_of(tree(children));
        const std::vector<stage> stages{
            {{0}, machine.shape.uniform_size(0).value_or(0), mode::scatter, "", provider::shared_memory},
            {{1}, 2, mode::scatter, "ring"}};
        const collective_call call = call_of(collective::allreduce, machine.ranks(), in_order(machine.ranks()));
        const program_of_all p =
            staged_program(machine, stages, call, std::vector<buffer>(at(machine.ranks()), buffer::scratch));
        const std::vector<instr>& all = p.schedules[0].instrs;
        return std::count_if(all.begin(), all.end(),
                             [](const instr& i) { return is_stage(i.what) && reduces(i.what); });
    };
    EXPECT_EQ(stages_in({{4, 4}, {2}}), 1);
    EXPECT_EQ(stages_in({{3, 5}, {2}}), 0);
}

TEST(tree_stages, other_orders_are_refused) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{4}));
    const collective_call any = call_of(collective::allreduce, 4, {});
    expect_proved(sent_program(machine, flat(4, "ring"), any));
    expect_refused(sent_program(machine, flat(4, "ring"), any), in_order(4));  // (((1 + 2) + 3) + 0)
    const program_of_all p = sent_program(machine, flat(4, "ring"), call_of(collective::allreduce, 4, in_order(4)));
    expect_proved(p);
    expect_refused(p, {0, 2, 1, 3});
    // Two sources exchanged: correct only within a tree node of two ranks.
    for (const int first : {0, 1}) {
        program_of_all mutant = p;
        schedule& s = mutant.schedules[2];
        const auto sum =
            std::find_if(s.instrs.begin(), s.instrs.end(), [](const instr& i) { return i.what == action::reduce; });
        ASSERT_EQ(sum->sources, 4u);
        std::swap(s.sources[sum->first_source + at(first)], s.sources[sum->first_source + at(first) + 1]);
        if (first == 0) expect_proved(mutant);
        else expect_refused(mutant, in_order(4));
    }
}

}  // namespace terrace::detail::test::tree_stages_test
