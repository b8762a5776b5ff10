// Rates of flows that share links.

#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "planner/simulate/flows.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::flows_test {
namespace {

// Returns when each of the flows (from, to, bytes) ends, if all begin at once [s].
std::vector<double> ends(const hierarchy& h, const std::vector<std::tuple<int, int, double>>& begun) {
    link_loads loads(h);
    flows f(loads);
    std::vector<double> end(begun.size()), due(begun.size());
    for (const auto& [from, to, bytes] : begun) f.begin(f.add(loads.path(from, to)), bytes, 0, 0);
    double now = 0;
    for (std::size_t left = begun.size(); left > 0; --left) {
        f.share(now, [&](int flow, double when) { due[static_cast<std::size_t>(flow)] = when; });
        std::size_t next = begun.size();
        for (std::size_t i = 0; i < begun.size(); ++i)
            if (end[i] == 0 && (next == begun.size() || due[i] < due[next])) next = i;
        now = end[next] = due[next];
        f.end(static_cast<int>(next), now);
    }
    return end;
}

TEST(flows, headers_take_time_and_are_no_bytes_of_the_vector) {
    const hierarchy h = free_network(tree::uniform(std::vector{2, 3}));
    link_loads loads(h);
    flows f(loads);
    const std::vector<int> path = loads.path(0, 2);
    f.begin(f.add(path), 1e6, 0.5e6, 0);
    double end = 0;
    f.share(0, [&](int, double when) { end = when; });
    EXPECT_NEAR(end, 3e-3, 1e-12);
    f.end(0, end);
    const std::vector<link_load> made = loads.take();
    for (const int link : path) EXPECT_NEAR(made[static_cast<std::size_t>(link)].bytes, 1e6, 1e-3);
}

TEST(flows, share_a_link_and_take_what_others_leave) {
    // Nodes of 2 ranks, with 1 GB/s to each rank and 0.5 GB/s to each node.
    const hierarchy h = free_network(tree::uniform(std::vector{2, 3}));
    EXPECT_EQ(ends(h, {{0, 2, 1e6}}), (std::vector{2e-3}));
    // Two flows leave a node. Each gets half of the link; the longer one gets all of it when the short one has ended.
    const auto two = ends(h, {{0, 2, 1e6}, {1, 4, 0.5e6}});
    EXPECT_NEAR(two[1], 2e-3, 1e-12);
    EXPECT_NEAR(two[0], 3e-3, 1e-12);
    // The flow from rank 2's neighbour gets the rest of rank 2's link beside the flow from the network: 1 - 0.5.
    const auto mixed = ends(h, {{0, 2, 1e6}, {3, 2, 1e6}});
    EXPECT_NEAR(mixed[0], 2e-3, 1e-12);
    EXPECT_NEAR(mixed[1], 2e-3, 1e-12);
    // Three flows enter node 1, one of them from node 2. A fourth leaves node 2 with the rest of its link: 0.5 - 1/6.
    const auto four = ends(h, {{0, 2, 1e6}, {1, 3, 1e6}, {4, 2, 1e6}, {5, 0, 1e6}});
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(four[static_cast<std::size_t>(i)], 6e-3, 1e-12);
    EXPECT_NEAR(four[3], 3e-3, 1e-12);
}

}  // namespace
}  // namespace terrace::detail::test::flows_test
