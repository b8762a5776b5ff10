// Providers' own collectives: stages in shared memory, as in schedule/stage_work, and NCCL's.

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planner/figures.hpp"
#include "planner/planner.hpp"
#include "schedule/provider_stage.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::provider_stage_test {
namespace {

provider_stage in_memory(action what) {
    return memory_stage(stage_work(what, 0, sharing::replicated), group::numbered(6), false);
}

// Returns how much the last four of 6 members with equal shards read from the first two, and vice versa [vectors].
std::pair<double, double> read_across(action what) {
    double out = 0, in = 0;
    const provider_stage all = in_memory(what);
    for (const group_message& m : all.moves)
        if ((m.from < 2) != (m.to < 2)) (m.from < 2 ? out : in) += m.part;
    return {out, in};
}

void expect_read_across(action what, double out, double in) {
    EXPECT_NEAR(read_across(what).first, out, 1e-12) << to_string(what);
    EXPECT_NEAR(read_across(what).second, in, 1e-12) << to_string(what);
}

TEST(provider_stage, links_carry_what_one_side_reads_of_the_other) {
    expect_read_across(action::stage_reduce_scatter, 2 * 4. / 6, 4 * 2. / 6);  // each reads its own shard of all
    expect_read_across(action::stage_allgather, 2 * 4. / 6, 4 * 2. / 6);       // each reads all other shards
    expect_read_across(action::stage_allreduce, 2 * 4, 4 * 2);                 // each reads all vectors
    expect_read_across(action::stage_reduce, 0, 4);                            // only the root reads
    expect_read_across(action::stage_broadcast, 4, 0);
    EXPECT_TRUE(in_memory(action::stage_broadcast).shared);  // all read the same data, which is cached
    expect_read_across(action::stage_scatter, 4. / 6, 0);
    expect_read_across(action::stage_gather, 0, 4. / 6);
}

TEST(provider_stage, waits_for_arrivals_and_for_what_others_reduce) {
    for (const action what : {action::stage_reduce_scatter, action::stage_allreduce})
        EXPECT_EQ(in_memory(what).flag_waits, 2) << to_string(what);
    for (const action what : {action::stage_allgather, action::stage_reduce, action::stage_broadcast})
        EXPECT_EQ(in_memory(what).flag_waits, 1) << to_string(what);
}

// A byte read or written takes gamma / 3, which is 24 GB/s.
TEST(provider_stage, shared_memory_streams_what_it_reduces) {
    const double flag = 0.5e-6 / 3, access = reduce_time(two_nodes()) / 3, bytes = 48000;
    for (const int p : {2, 3, 4}) {
        const hierarchy node = machine(tree::uniform(std::vector{p}));
        const auto time = [&](mode how, collective what) {
            return predict(node, {{{0}, p, how, "", provider::shared_memory}}, 48000, 1, 0, what).time;
        };
        const double whole = 2 * bytes * access, in = whole * (p - 1) / p, out = whole;
        const double shard = (p + 1) * bytes / p * access;
        const double link = bytes / 10e9, most = link * (p - 1) / p;
        // Blocks are copied into memory that peers can access, and back.
        EXPECT_NEAR(time(mode::scatter, collective::reduce_scatter),
                    2 * flag + whole * (1 + 1.0 / p) + std::max(shard, most), 1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::allgather), flag + whole * (1 + 1.0 / p) + std::max(in, most),
                    1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::allreduce), 3 * flag + in + shard + std::max(out, most), 1e-9);
        EXPECT_NEAR(time(mode::replicate, collective::allreduce),
                    2 * flag + std::max(whole + p * bytes * access, (p - 1) * link), 1e-9);
        EXPECT_NEAR(time(mode::root, collective::reduce), flag + std::max((p + 1) * bytes * access, (p - 1) * link),
                    1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::broadcast),
                    2 * flag + whole + std::max(whole / p, most) + std::max(out, most), 1e-9);
        EXPECT_NEAR(time(mode::scatter, collective::reduce), 3 * flag + in + shard + std::max(whole, most), 1e-9);
        EXPECT_NEAR(time(mode::root, collective::broadcast), flag + whole + std::max(whole, link), 1e-9);
    }
}

// NCCL's collective takes one start-up and the time of its busiest link; it reduces at the same time.
TEST(provider_stage, between_gpus_what_nccl_and_mpi_take) {
    hierarchy h = gpu_nodes(1, {}, {});
    h.levels.pop_back();
    h.shape = tree::uniform(std::vector{8});
    constexpr double bytes = 64 * mib;
    const auto time = [&](mode how, const char* by, collective what = collective::allreduce) {
        return predict(h, {run_by({{0}, 8, how}, by)}, static_cast<std::int64_t>(bytes), 1, 0, what).time;
    };
    const double round = 7.0 / 8 * bytes / 400e9;
    EXPECT_NEAR(time(mode::scatter, "nccl"), 2 * (12e-6 + round), 1e-9);
    EXPECT_NEAR(time(mode::replicate, "nccl"), 12e-6 + 2 * round, 1e-9);
    EXPECT_NEAR(time(mode::root, "nccl", collective::broadcast), 12e-6 + bytes / 400e9, 1e-9);
    EXPECT_NEAR(time(mode::scatter, "nccl", collective::broadcast), 2 * (12e-6 + round), 1e-9);
    // With messages each step has a start-up, and is followed by its reduction.
    EXPECT_GT(time(mode::scatter, "ring"), 2 * (7 * 10e-6 + round));
    EXPECT_LT(time(mode::scatter, "ring"), 2 * (7 * 11e-6 + round) + bytes / 10e12);
    // Over MPI.
    h.levels[0].mpi = device_rates{.step = 30e-6, .bandwidth = 10e9};
    std::vector<stage> over_mpi{{{0}, 8, mode::scatter, "direct"}};
    over_mpi[0].provider = provider::mpi;
    const prediction p = predict(h, over_mpi, 8 << 10, 1, 0);
    EXPECT_NEAR(p.stages[0].latency, 2 * 30e-6, 1e-12);
    EXPECT_NEAR(p.links[0].time, 2 * 7.0 / 8 * (8 << 10) / 10e9, 1e-12);
    EXPECT_NEAR(p.links[0].bytes, 2 * 7.0 / 8 * (8 << 10), 1e-6);
}

}  // namespace
}  // namespace terrace::detail::test::provider_stage_test
