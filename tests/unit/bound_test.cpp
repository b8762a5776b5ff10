// The lower bound of a collective's time.

#include <vector>

#include <gtest/gtest.h>

#include "base/partition.hpp"
#include "plan/limit.hpp"
#include "planner/planner.hpp"
#include "support/cuts.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::bound_test {
namespace {

// ---- limit ----------------------------------------------------------------------------------------------------------

TEST(bound, is_what_the_slowest_level_demands) {
    EXPECT_DOUBLE_EQ(limit(two_nodes(), 32 * mib), 32.0 * mib / 125e6);
    EXPECT_DOUBLE_EQ(limit(two_racks(), 32 * mib), 32.0 * mib / 62.5e6);
    EXPECT_DOUBLE_EQ(limit(network(8), 8 * mib), 2 * 7.0 / 8 * 8 * mib / 1e9);
    EXPECT_EQ(limit(network(1), mib), 0);
    // Two racks at 62.5 MB/s are slower than five nodes at 125 MB/s.
    EXPECT_DOUBLE_EQ(limit(uneven(), mib), mib / 62.5e6);
}

TEST(bound, depends_on_the_collective) {
    for (const hierarchy& h : machines()) {
        if (!h.shape.uniform()) continue;
        const double both = limit(h, mib);
        EXPECT_DOUBLE_EQ(limit(h, mib, collective::reduce_scatter), both / 2);
        EXPECT_DOUBLE_EQ(limit(h, mib, collective::allgather), both / 2);
    }
    // A node sends all its blocks, or receives all others.
    for (const collective what : {collective::reduce_scatter, collective::allgather}) {
        const hierarchy four_and_two = machine(tree({{4, 2}, {2}})), all_but_one = machine(tree({{3, 3, 1}, {3}}));
        EXPECT_DOUBLE_EQ(limit(four_and_two, mib, what), 4.0 / 6 * mib / 125e6);
        EXPECT_DOUBLE_EQ(limit(all_but_one, mib, what), 6.0 / 7 * mib / 125e6);
        const ranked best = rank_candidates(four_and_two, 64 * mib, what).front();
        EXPECT_LT(best.how.predicted, 1.02 * best.how.limit) << describe(four_and_two, best.what.stages);
    }
    for (const collective what : {collective::broadcast, collective::reduce}) {
        EXPECT_DOUBLE_EQ(limit(network(8), mib, what), mib / 1e9);
        EXPECT_DOUBLE_EQ(limit(two_racks(), mib, what), mib / 62.5e6);
        EXPECT_EQ(limit(network(1), mib, what), 0);
    }
}

// On trees the limit equals the bound over all cuts of a general graph, since some single link is the worst cut.
TEST(bound, of_allgather_is_the_worst_cut) {
    std::vector<hierarchy> list = machines();
    for (const int ranks : {2, 3, 6, 8})
        for (hierarchy& h : uniform_machines(ranks)) list.push_back(std::move(h));
    for (hierarchy& h : uneven_machines()) list.push_back(std::move(h));
    int compared = 0;
    for (const hierarchy& h : list) {
        const network_graph g = graph_of(h);
        if (g.vertices > 18 || g.ranks < 2) continue;
        EXPECT_DOUBLE_EQ(limit(h, mib, collective::allgather), allgather_bound(g, mib)) << text(h.shape);
        ++compared;
    }
    EXPECT_GE(compared, 20);
}

TEST(bound, of_unequal_links) {
    // All links together pass 4 vectors, and each link passes at least one.
    EXPECT_DOUBLE_EQ(limit(unequal_links(62.5e6), mib), mib / 62.5e6);
    EXPECT_DOUBLE_EQ(limit(unequal_links(120e6), mib), 4.0 * mib / 370e6);
    EXPECT_DOUBLE_EQ(limit(unequal_links(62.5e6), mib, collective::broadcast), mib / 62.5e6);
    EXPECT_DOUBLE_EQ(limit(unequal_links(62.5e6), mib, collective::allgather), 0.8 * mib / 62.5e6);
    EXPECT_DOUBLE_EQ(allgather_bound(graph_of(unequal_links(62.5e6)), mib), 0.8 * mib / 62.5e6);
}

TEST(bound, cuts_of_other_graphs) {
    // A ring of four in both directions. The worst cut is around three vertices: three blocks leave by two links.
    network_graph ring{4, 4, {}};
    for (int i = 0; i < 4; ++i) {
        ring.links.push_back({i, wrap(i + 1, 4), 1e9});
        ring.links.push_back({i, wrap(i - 1, 4), 1e9});
    }
    EXPECT_DOUBLE_EQ(allgather_bound(ring, 4e9), 3.0 / 2);
    // A ring in one direction: the same three blocks leave by one link.
    std::erase_if(ring.links, [](const auto& l) { return l.to != wrap(l.from + 1, 4); });
    EXPECT_DOUBLE_EQ(allgather_bound(ring, 4e9), 3);
    // Two pairs with a thin link between them.
    const network_graph pairs{4, 4, {{0, 1, 9e9}, {1, 0, 9e9}, {2, 3, 9e9}, {3, 2, 9e9}, {1, 2, 1e9}, {2, 1, 1e9}}};
    EXPECT_DOUBLE_EQ(allgather_bound(pairs, 4e9), 2);
}

}  // namespace
}  // namespace terrace::detail::test::bound_test
