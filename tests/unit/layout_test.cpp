// Ranks that stand for all others, and where stages put them.

#include <vector>

#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "planner/pricer.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::layout_test {
namespace {

// Two nodes of 4: a rank has a quarter of the vector after the first stage, and its node all of it.
TEST(layout, follows_shares_from_stage_to_stage) {
    const hierarchy h = two_nodes();
    sampler all(h);
    const std::vector<stage> stages{{{0}, 4, mode::scatter, ""}, {{1}, 2, mode::scatter, ""}};
    const layout inner = all.lay_out(std::span(stages).first(1)), outer = all.lay_out(stages);
    EXPECT_EQ(inner.before, nullptr);
    EXPECT_NE(outer.before, nullptr);
    ASSERT_EQ(outer.places.size(), 8U);
    for (int rank = 0; rank < 8; ++rank) {
        const sample_place &in = inner.places[static_cast<std::size_t>(rank)],
                           &out = outer.places[static_cast<std::size_t>(rank)];
        EXPECT_EQ(in.domain, rank / 4);
        EXPECT_EQ(in.position, rank % 4);
        EXPECT_EQ(in.positions, 4);
        EXPECT_EQ(in.share, 1);
        EXPECT_EQ(out.domain, 0);
        EXPECT_EQ(out.position, rank / 4);
        EXPECT_EQ(out.positions, 2);
        EXPECT_EQ(out.share, 0.25);
        EXPECT_EQ(out.below, (std::vector{0.25, 1.0}));
    }
}

// Nodes of 3 and 2: halves meet thirds, so that a rank's share has two pieces.
TEST(layout, cuts_shares_of_unequal_siblings) {
    const hierarchy h = machine(tree({{3, 2}, {2}}));
    sampler all(h);
    const std::vector<stage> stages{{{0}, 0, mode::scatter, ""}, {{1}, 2, mode::scatter, ""}};
    const layout l = all.lay_out(stages);
    EXPECT_EQ(l.places[0].pieces, 1);  // [0, 1/3)
    EXPECT_EQ(l.places[1].pieces, 2);  // [1/3, 1/2) and [1/2, 2/3)
    EXPECT_EQ(l.places[3].pieces, 2);  // [0, 1/3) and [1/3, 1/2)
    EXPECT_NEAR(l.places[1].largest, 1. / 6, 1e-12);
    EXPECT_NEAR(l.places[3].largest, 1. / 3, 1e-12);
    EXPECT_EQ(all.unequal_positions(l), (std::vector{3, 2}));
}

TEST(layout, of_roots_leaves_one_rank) {
    const hierarchy h = two_nodes();
    sampler all(h);
    const std::vector<stage> stages{{{0}, 4, mode::root, ""}, {{1}, 2, mode::root, ""}};
    const layout l = all.lay_out(stages);
    for (int rank = 0; rank < 8; ++rank)
        EXPECT_EQ(l.places[static_cast<std::size_t>(rank)].share, rank % 4 == 0 ? 1 : 0) << rank;
    EXPECT_TRUE(all.unequal_positions(l).empty());
}

// Racks of equal shape are looked at once. What the sampled ranks miss is small.
TEST(layout, samples_speak_for_all_ranks) {
    std::vector<int> nodes(12 + 12 + 12 + 11 + 12, 4);
    nodes[17] = 3;
    for (const hierarchy& h : {machine(tree::uniform(std::vector{4, 6, 5})),
                               machine(tree({nodes, {12, 12, 12, 11, 12}, {5}})), pairs_of_pairs(7)}) {
        const sampler few(h, 0), all(h, h.ranks());
        EXPECT_LT(few.ranks().size(), all.ranks().size() * 3 / 4);
        EXPECT_EQ(all.ranks().size(), static_cast<std::size_t>(h.ranks()));
        double ranks = 0;
        for (const double w : few.weights()) ranks += w;
        EXPECT_EQ(ranks, h.ranks());
        pricer sampled(h, few), exact(h, all);
        for (const collective what : all_collectives)
            for (const candidate& c : candidates(h, what)) {
                const price one = sampled.price_stages(c.stages, what), other = exact.price_stages(c.stages, what);
                for (const double bytes : {8.0, 1e4, 1e6, 1e8})
                    EXPECT_NEAR(one.time(bytes, 2, 1 << 18), other.time(bytes, 2, 1 << 18),
                                other.time(bytes, 2, 1 << 18) * 0.12)
                        << to_string(what) << ' ' << describe(h, c.stages);
            }
    }
}

}  // namespace
}  // namespace terrace::detail::test::layout_test
