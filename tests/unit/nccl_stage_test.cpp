// Stages between GPUs, by NCCL and over MPI.

#include <vector>

#include <gtest/gtest.h>

#include "planner/planner.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::nccl_stage_test {
namespace {

// NCCL's own collective has one start-up and the time of its busiest link, and what it reduces it does meanwhile.
TEST(nccl_stage, between_gpus_what_nccl_and_mpi_take) {
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
    // Messages pay for each step, and reduce after it.
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
}  // namespace terrace::detail::test::nccl_stage_test
