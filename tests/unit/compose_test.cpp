// Groups of a composition with their members, and lowered stages.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "schedule/block_layout.hpp"
#include "schedule/builder.hpp"
#include "schedule/collective_call.hpp"
#include "schedule/lower.hpp"
#include "schedule/verify.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::compose_test {
namespace {

std::vector<stage> two_stages(mode inner, const std::string& inner_by, mode outer, const std::string& outer_by,
                              int group, int nodes) {
    return {test::run_by({.levels = {0}, .group = group, .how = inner}, inner_by),
            test::run_by({.levels = {1}, .group = nodes, .how = outer}, outer_by)};
}

struct meeting {
    range segment;
    std::vector<int> members;
    friend bool operator==(const meeting&, const meeting&) = default;
};

std::vector<meeting> meetings(const composed_stage& s) {
    std::vector<meeting> result;
    for (const group& g : s.groups) result.push_back({g.whole(), g.members()});
    return result;
}

TEST(compose, nodes_of_4_and_2_meet_in_four_segments) {
    const hierarchy machine = test::machine_of(tree({{4, 2}, {2}}));
    const composition c = compose(machine, two_stages(mode::scatter, "ring", mode::scatter, "ring", 0, 2), 8, 1);
    EXPECT_EQ(meetings(c.stages[0]), (std::vector<meeting>{{{0, 8}, {0, 1, 2, 3}}, {{0, 8}, {4, 5}}}));
    EXPECT_EQ(meetings(c.stages[1]),
              (std::vector<meeting>{{{0, 2}, {0, 4}}, {{2, 4}, {1, 4}}, {{4, 6}, {2, 5}}, {{6, 8}, {3, 5}}}));
    EXPECT_EQ(c.stages[1].groups[1].shards(), (std::vector<range>{{2, 3}, {3, 4}}));
    EXPECT_EQ(c.stages[1].groups_of(4), (std::vector{0, 1}));
    EXPECT_EQ(c.stages[1].groups_of(0), (std::vector{0}));
}

TEST(compose, nodes_of_3_3_and_1_meet_in_three_segments) {
    const hierarchy machine = test::machine_of(tree({{3, 3, 1}, {3}}));
    const composition c = compose(machine, two_stages(mode::scatter, "direct", mode::scatter, "direct", 0, 3), 9, 1);
    EXPECT_EQ(meetings(c.stages[0]), (std::vector<meeting>{{{0, 9}, {0, 1, 2}}, {{0, 9}, {3, 4, 5}}}))
        << "one rank alone has nothing to do";
    EXPECT_EQ(meetings(c.stages[1]),
              (std::vector<meeting>{{{0, 3}, {0, 3, 6}}, {{3, 6}, {1, 4, 6}}, {{6, 9}, {2, 5, 6}}}));
}

TEST(compose, cuts_that_do_not_coincide_make_segments_of_both) {
    const hierarchy machine = test::machine_of(tree({{3, 2}, {2}}));
    const composition c = compose(machine, two_stages(mode::scatter, "ring", mode::scatter, "ring", 0, 2), 12, 1);
    EXPECT_EQ(meetings(c.stages[1]),
              (std::vector<meeting>{{{0, 4}, {0, 3}}, {{4, 6}, {1, 3}}, {{6, 8}, {1, 4}}, {{8, 12}, {2, 4}}}));
}

// Nodes of equal size may divide the vector differently.
TEST(compose, shares_may_differ_from_node_to_node) {
    const hierarchy machine = test::machine_of(tree::uniform(std::vector{2, 3}));
    std::vector<stage> stages = two_stages(mode::scatter, "direct", mode::scatter, "direct", 2, 3);
    stages[0].shares = {0, 1, 1, 1, 1, 1};
    const composition c = compose(machine, stages, 12, 1);
    EXPECT_EQ(c.stages[0].groups[0].shards(), (std::vector<range>{{0, 0}, {0, 12}}));
    EXPECT_EQ(c.stages[0].groups[2].shards(), (std::vector<range>{{0, 6}, {6, 12}}));
    EXPECT_EQ(meetings(c.stages[1]), (std::vector<meeting>{{{0, 6}, {1, 2, 4}}, {{6, 12}, {1, 3, 5}}}));
    for (int rank = 0; rank < 6; ++rank) {
        std::vector<meeting> of_rank;
        for (const meeting& m : meetings(c.stages[1]))
            if (std::ranges::count(m.members, rank) > 0) of_rank.push_back(m);
        EXPECT_EQ(meetings(compose_for(rank, machine, stages, 12, 1).stages[1]), of_rank) << rank;
    }
}

TEST(compose, a_coarse_quantum_merges_cuts) {
    const hierarchy machine = test::machine_of(tree({{3, 2}, {2}}));
    const composition c = compose(machine, two_stages(mode::scatter, "ring", mode::scatter, "ring", 0, 2), 12, 6);
    for (const composed_stage& s : c.stages)
        for (const group& g : s.groups)
            for (std::int64_t cut : {g.whole().begin, g.whole().end}) EXPECT_EQ(cut % 6, 0);
    EXPECT_EQ(c.stages[1].groups.size(), 2u);
}

TEST(compose, segments_take_turns_with_the_root) {
    const hierarchy machine = test::machine_of(tree::uniform(std::vector{4, 3}));
    const composition c = compose(machine, two_stages(mode::scatter, "ring", mode::root, "tree", 4, 3), 12, 1);
    std::vector<int> roots;
    for (const group& g : c.stages[1].groups) roots.push_back(g.root());
    EXPECT_EQ(roots, (std::vector{0, 1, 2, 0}));
}

TEST(compose, roots_of_nodes_meet) {
    const hierarchy machine = test::machine_of(tree({{4, 2}, {2}}));
    const composition c = compose(machine, two_stages(mode::root, "tree", mode::scatter, "ring", 0, 2), 8, 1);
    EXPECT_EQ(meetings(c.stages[1]), (std::vector<meeting>{{{0, 8}, {0, 4}}}));
    EXPECT_TRUE(c.stages[1].groups_of(5).empty());
}

TEST(compose, replicas_run_side_by_side) {
    const hierarchy machine = test::machine_of(tree::uniform(std::vector{2, 2}));
    const composition c = compose(machine, two_stages(mode::replicate, "doubling", mode::scatter, "ring", 2, 2), 8, 1);
    EXPECT_EQ(meetings(c.stages[1]), (std::vector<meeting>{{{0, 8}, {0, 2}}, {{0, 8}, {1, 3}}}));
}

TEST(compose, refuses_replicate_below_unequal_siblings) {
    const hierarchy machine = test::machine_of(tree({{4, 2}, {2}}));
    const std::vector<stage> stages = two_stages(mode::replicate, "doubling", mode::scatter, "ring", 0, 2);
    EXPECT_THROW(compose(machine, stages, 8, 1), plan_error);
}

TEST(compose, refuses_algorithms_that_do_not_do_the_mode_or_do_not_exist) {
    const hierarchy machine = test::machine_of(tree::uniform(std::vector{2, 2}));
    EXPECT_THROW(compose(machine, two_stages(mode::scatter, "tree", mode::scatter, "ring", 2, 2), 8, 1), plan_error);
    EXPECT_THROW(compose(machine, two_stages(mode::scatter, "ring", mode::root, "sorting", 2, 2), 8, 1), plan_error);
}

TEST(compose, for_one_rank_has_the_groups_of_that_rank) {
    const hierarchy machine = test::machine_of(tree({{4, 2, 4, 4}, {2, 2}, {2}}));
    const std::vector<stage> stages{{.levels = {0}, .group = 0, .how = mode::scatter, .algorithm = "ring"},
                                    {.levels = {1}, .group = 2, .how = mode::scatter, .algorithm = "halving"},
                                    {.levels = {2}, .group = 2, .how = mode::scatter, .algorithm = "direct"}};
    const composition all = compose(machine, stages, 64, 1);
    for (int rank = 0; rank < machine.ranks(); ++rank) {
        const composition own = compose_for(rank, machine, stages, 64, 1);
        for (std::size_t s = 0; s < stages.size(); ++s) {
            composed_stage expected = all.stages[s];
            expected.groups.clear();
            for (const int k : all.stages[s].groups_of(rank))
                expected.groups.push_back(all.stages[s].groups[static_cast<std::size_t>(k)]);
            EXPECT_EQ(meetings(own.stages[s]), meetings(expected)) << "rank " << rank << ", stage " << s;
            EXPECT_EQ(own.stages[s].groups_of(rank).size(), expected.groups.size());
            EXPECT_EQ(own.stages[s].largest, expected.largest);
        }
        for (const owned& o : own.owners) EXPECT_EQ(o.owners, std::vector{rank});
    }
}

TEST(compose, an_empty_vector_gives_empty_programs) {
    const hierarchy machine = test::machine_of(tree({{3, 3, 1}, {3}}));
    const composition c = compose(machine, two_stages(mode::scatter, "ring", mode::scatter, "ring", 0, 3), 0, 1);
    for (const schedule& s : generate_all(c, collective::allreduce)) EXPECT_TRUE(s.instrs.empty());
}

TEST(compose_blocks, one_rank_hands_on_what_is_for_its_node) {
    const hierarchy machine = test::machine_of(tree({{3, 2}, {2}}));
    const std::vector<stage> stages = two_stages(mode::root, "tree", mode::scatter, "ring", 0, 2);
    const std::vector<std::int64_t> counts{10, 0, 5, 7, 3};
    const block_layout b = compose_blocks(machine, stages, counts);
    EXPECT_EQ(b.held_by(0), (std::vector<range>{{0, 15}}));
    EXPECT_EQ(b.held_by(3), (std::vector<range>{{15, 25}}));
    for (const int member : {1, 2, 4}) EXPECT_TRUE(b.held_by(member).empty()) << member;
    EXPECT_EQ(b.c.stages[0].forwarding[0].shards(), (std::vector<range>{{0, 10}, {10, 10}, {10, 15}}));

    const std::vector<range> blocks = side_by_side(counts);
    std::vector<std::int64_t> begins;
    for (const range& block : blocks) begins.push_back(block.begin);
    for (const collective what : {collective::reduce_scatter, collective::allgather}) {
        std::vector<schedule> all;
        int between_nodes = 0;
        for (int r = 0; r < machine.ranks(); ++r) {
            all.push_back(generate(b, what, r, begins));
            for (const instr& i : all.back().instrs) between_nodes += i.what == action::send && (r < 3) != (i.peer < 3);
        }
        EXPECT_EQ(find_fault(all, {.root = 0, .blocks = blocks}), std::nullopt);
        EXPECT_EQ(between_nodes, 2) << "one each way";
    }
}

// The last node is alone in its rack, so its root owns a part of each shard of the other rack. Its node's blocks are in
// one of these parts.
TEST(compose_blocks, a_root_that_owns_several_parts_hands_on_one) {
    const hierarchy machine = test::machine_of(tree({{3, 4, 2, 2}, {3, 1}, {2}}));
    const std::vector<stage> stages{test::run_by({.levels = {0}, .how = mode::root}, "tree"),
                                    test::run_by({.levels = {1}, .how = mode::scatter}, "direct"),
                                    test::run_by({.levels = {2}, .group = 2, .how = mode::scatter}, "ring")};
    const std::vector<std::int64_t> counts(11, 1);
    const block_layout b = compose_blocks(machine, stages, counts);
    const std::vector<range> of_last = b.c.stages[0].forwarding[3].shards();
    EXPECT_EQ(of_last[0].end, of_last[1].begin);

    const std::vector<range> blocks = side_by_side(counts);
    std::vector<std::int64_t> begins;
    for (const range& block : blocks) begins.push_back(block.begin);
    for (const collective what : {collective::reduce_scatter, collective::allgather}) {
        std::vector<schedule> all;
        for (int r = 0; r < machine.ranks(); ++r) all.push_back(generate(b, what, r, begins));
        EXPECT_EQ(find_fault(all, {.root = 0, .blocks = blocks}), std::nullopt);
    }
}

TEST(compose_blocks, refuses_stages_that_cannot_leave_each_rank_its_block) {
    const auto fault = [](const std::vector<stage>& stages) {
        const auto found = fault_of_blocks(stages);
        return found ? std::to_string(found->first) + ": " + found->second : "";
    };
    EXPECT_EQ(fault(two_stages(mode::root, "tree", mode::root, "tree", 2, 2)), "");
    EXPECT_EQ(fault(two_stages(mode::scatter, "ring", mode::replicate, "doubling", 2, 2)),
              "1: mode replicate cannot leave every rank with its own block; only scatter and root can");
    EXPECT_EQ(fault(two_stages(mode::scatter, "ring", mode::root, "tree", 2, 2)),
              "1: mode root after mode scatter; of blocks it comes first");
    std::vector<stage> routes = two_stages(mode::root, "tree", mode::scatter, "biring", 2, 2);
    routes.back().route_share = 1;
    EXPECT_EQ(fault(routes), "0: mode root beside route_share; blocks that one rank hands on take one way");
}

TEST(lower, ranks_with_and_without_a_providers_stage_keep_the_same_steps) {
    const hierarchy machine = test::machine_of(tree({{3, 3, 1}, {3}}));
    const composition c =
        compose(machine, two_stages(mode::scatter, "shared_memory", mode::scatter, "ring", 0, 3), 9, 1);
    std::vector<schedule> all;
    for (const schedule& s : generate_all(c, collective::allreduce)) all.push_back(lower(s, {}));
    EXPECT_EQ(find_fault(all), std::nullopt);
}

TEST(lower, keeps_the_stages_that_the_transport_runs) {
    const hierarchy machine = test::machine_of(tree::uniform(std::vector{4}));
    const std::vector<stage> stages{
        {.levels = {0}, .group = 4, .how = mode::scatter, .provider = provider::shared_memory}};
    const schedule s = generate(compose(machine, stages, 8, 1), collective::allreduce, 0);
    const auto kept = [&](const capabilities& can) {
        return std::ranges::count_if(lower(s, can).instrs, is_stage, &instr::what);
    };
    const auto bit = [](action a) { return 1u << static_cast<unsigned>(a); };
    EXPECT_EQ(kept({}), 0);
    EXPECT_EQ(kept({.stages = bit(action::stage_allgather)}), 1);
    EXPECT_EQ(kept({.stages = bit(action::stage_allgather) | bit(action::stage_reduce_scatter)}), 2);
}

}  // namespace
}  // namespace terrace::detail::compose_test
