// Lanes and chunk of a candidate.

#include <string_view>

#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::tuning_test {
namespace {

// ---- lanes and chunk ------------------------------------------------------------------------------------------------

TEST(tuned, slices_in_whole_pages) {
    for (const hierarchy& h : machines())
        for (const std::string_view name : {"flat-ring", "two-level", "central"})
            for (std::int64_t bytes = 8; bytes <= std::int64_t{1} << 30; bytes *= 4) {
                const rule r = tuned(h, baseline(h, name), bytes);
                EXPECT_LE(r.lanes, policy.lanes);
                EXPECT_EQ(r.lanes > 1, r.chunk > 0);
                EXPECT_EQ(r.chunk % 4096, 0);
                EXPECT_LT(r.chunk, bytes);
            }
}

// A chunk is at one or two ranks of a chain at a time, so the other ranks' lanes are free.
TEST(tuned, fills_long_chains) {
    const candidate chain = baseline(network(16), "flat-ring", collective::broadcast);
    const rule r = tuned(network(16), chain, 64 * mib, collective::broadcast);
    EXPECT_GT(r.lanes, 1);
    EXPECT_LE(r.lanes, 4);
    EXPECT_LT(r.predicted, 1.1 * r.limit);
}

// The chunk is 48 KiB on the wire, times ranks per node, times nodes (docs/measurements/large-messages.md).
TEST(tuned, aims_at_good_wire_messages) {
    const candidate c{"staged", {{{0}, 4, mode::scatter, "direct"}, {{1}, 2, mode::scatter, "ring"}}};
    const rule r = tuned(two_nodes(), c, 32 * mib);
    EXPECT_EQ(r.lanes, policy.lanes);
    EXPECT_EQ(r.chunk, 48 * 1024 * 8);
}

}  // namespace
}  // namespace terrace::detail::test::tuning_test
