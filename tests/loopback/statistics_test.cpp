// Late ranks: each rank counts its waits for others. All files together name the rank that all wait for in the end.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "statistics/late_ranks.hpp"
#include "support/effort.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::test::statistics_test {

namespace {

// Returns a plan for 12 ranks in two racks of two nodes.
plan two_racks() {
    return plan_of(machine_of(tree::uniform(std::vector{3, 2, 2})),
                   {{{0}, 3, mode::scatter, "", provider::shared_memory},
                    {{1}, 2, mode::scatter, "ring"},
                    {{2}, 2, mode::scatter, "direct"}});
}

// Returns the statistics of calls of 64 KiB. Rank `late` sleeps before every fifth call; -1: none.
std::vector<rank_statistics> statistics_of(int late, int calls, std::chrono::microseconds sleep) {
    const temporary_directory folder;
    options o;
    o.statistics_directory = folder.path();
    loopback::run(
        two_racks(),
        [&](communicator& comm) {
            std::vector<float> data(16 << 10, 1);
            for (int call = 0; call < calls; ++call) {
                if (call % 5 == 4 && comm.rank() == late) std::this_thread::sleep_for(sleep);
                comm.allreduce(std::span(data));
            }
        },
        o);
    return read_statistics(folder.path());
}

int worst_rank(const lateness& found) {
    return std::ranges::max_element(found.ranks, {}, [](const auto& each) { return each.second.steady; })->first;
}

}  // namespace

TEST(statistics, name_the_rank_that_others_wait_for_in_the_end) {
    // Sleeps are long compared with the delays of ranks without a core, with sanitizers too.
    const std::vector<rank_statistics> files = statistics_of(7, 50, std::chrono::milliseconds(slowness > 1 ? 200 : 20));
    ASSERT_EQ(files.size(), 12u);
    for (const rank_statistics& f : files) {
        ASSERT_EQ(f.counted.calls.size(), 1u);
        EXPECT_EQ(f.counted.calls[0].call, "allreduce");
        EXPECT_EQ(f.counted.calls[0].bytes_from, 64 << 10);
        EXPECT_EQ(f.counted.calls[0].calls, 50);
    }
    const lateness found = lateness_of(files);
    EXPECT_EQ(worst_rank(found), 7);
    EXPECT_TRUE(found.sentence().starts_with("rank 7 on ")) << found.sentence();
}

TEST(statistics, are_counted_by_name_and_size_as_the_program_goes) {
    loopback::run(two_racks(), [&](communicator& comm) {
        std::vector<float> data(300, 1);
        comm.allreduce(std::span(data).first(100));
        comm.allreduce(std::span(data).first(120));
        comm.allreduce(std::span(data));
        comm.barrier();
        const statistics s = comm.statistics();
        ASSERT_EQ(s.calls.size(), 3u);
        EXPECT_EQ(s.calls[0].bytes_from, 256);
        EXPECT_EQ(s.calls[0].calls, 2);
        EXPECT_EQ(s.calls[0].bytes, 880);
        EXPECT_GT(s.calls[0].seconds, 0);
        EXPECT_EQ(s.calls[1].bytes_from, 1024);
        EXPECT_EQ(s.calls[2].call, "barrier");
    });
}

// Prints how often the late rank is found, in 100 runs for each length of sleep. On a machine with other work, ranks
// without a core are late as well.
TEST(statistics, series_of_runs) {
    const int runs = share("runs with a late rank", 100, 0);
    for (const int sleep : runs > 0 ? std::vector{200, 20, 2, 0} : std::vector<int>()) {
        int first = 0, named = 0;
        for (int run = 0; run < runs; ++run) {
            const int late = sleep > 0 ? run % 12 : -1;
            const lateness found = lateness_of(statistics_of(late, 200, std::chrono::milliseconds(sleep)));
            first += worst_rank(found) == late ? 1 : 0;
            named += found.sentence().starts_with("rank ") ? 1 : 0;
        }
        std::printf("sleep of %d ms: the right rank is first in %d of %d runs; a rank is named in %d\n", sleep, first,
                    runs, named);
        EXPECT_GE(first, sleep >= 20 ? runs : 0);
    }
}

}  // namespace terrace::detail::test::statistics_test
