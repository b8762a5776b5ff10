// Samples: ranks that represent all ranks in prices.

#include <vector>

#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "planner/pricer.hpp"
#include "planner/samples.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::samples_test {
namespace {

// Two racks of three nodes of four ranks. Samples are the first, the last and one more child of each domain.
TEST(samples, share_links_with_those_for_whom_they_stand) {
    const hierarchy h = machine(tree::uniform(std::vector{4, 3, 2}));
    const link_rows rows(h);
    const samples some(h, rows, 0);
    std::vector<double> ranks(static_cast<std::size_t>(rows.links()));
    for (std::size_t i = 0; i < some.count(); ++i)
        for (int row = 0; row < rows.count(); ++row)
            ranks[static_cast<std::size_t>(rows.link(row, rows.member_of(row, some.ranks()[i]), false))] +=
                some.share_of_link(i, row);
    for (int row = 0; row < rows.count(); ++row)
        for (int child = 0; child < rows.members(row); ++child) {
            const int link = rows.link(row, child, false);
            const int below = h.shape.first_rank(row - 1, child + 1) - h.shape.first_rank(row - 1, child);
            EXPECT_DOUBLE_EQ(ranks[static_cast<std::size_t>(link)], some.are_above(link) ? below : 0) << row << child;
        }
}

// One of several racks of equal shape is sampled. The error by ranks that are not sampled is small.
TEST(samples, samples_speak_for_all_ranks) {
    std::vector<int> nodes(12 + 12 + 12 + 11 + 12, 4);
    nodes[17] = 3;
    for (const hierarchy& h : {machine(tree::uniform(std::vector{4, 6, 5})),
                               machine(tree({nodes, {12, 12, 12, 11, 12}, {5}})), pairs_of_pairs(7)}) {
        const link_rows rows(h);
        const samples few(h, rows, 0), all(h, rows, h.ranks());
        EXPECT_LT(few.count(), all.count() * 3 / 4);
        EXPECT_EQ(all.count(), static_cast<std::size_t>(h.ranks()));
        double ranks = 0;
        for (const double w : few.weights()) ranks += w;
        EXPECT_EQ(ranks, h.ranks());
        pricer sampled(h, 0), exact(h, h.ranks());
        for (const collective what : all_collectives)
            for (const candidate& c : candidates(h, what)) {
                const price one = sampled.price_stages(c.stages, what), other = exact.price_stages(c.stages, what);
                for (const double bytes : {8.0, 1e4, 1e6, 1e8})
                    EXPECT_NEAR(one.time(bytes, 2, 1 << 18), other.time(bytes, 2, 1 << 18),
                                other.time(bytes, 2, 1 << 18) * 0.25)
                        << to_string(what) << ' ' << describe(h, c.stages);
            }
    }
}

}  // namespace
}  // namespace terrace::detail::test::samples_test
