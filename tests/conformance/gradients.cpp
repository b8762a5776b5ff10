// Gradients over every transport: random training runs against a serial oracle.

#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "support/effort.hpp"
#include "support/gradient_runs.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

namespace {

class gradients : public testing::TestWithParam<world> {};

}  // namespace

TEST_P(gradients, random_iterations_are_exact) {
    constexpr int iterations = 10;
    const int runs = share("random training runs of each number of ranks", 200, 4);  // 2,000 iterations
    for (int ranks : GetParam().sizes) {
        const plan p = plan_of_all_collectives(machines_of_size(ranks).back());
        for (int n = 0; n < runs; ++n) {
            const gradient_run run{seed() + static_cast<std::uint64_t>(1000 * ranks + n), iterations};
            const report seen =
                GetParam().run(p, [&](communicator& comm) { return std::vector<outcome>{train(comm, run)}; });
            for (const std::vector<outcome>& rank : seen) {
                EXPECT_EQ(rank[0].wrong, 0) << ranks << " ranks, seed " << run.seed;
                EXPECT_EQ(rank[0].digest, seen[0][0].digest) << ranks << " ranks, seed " << run.seed;
            }
            if (HasFailure()) return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(, gradients, testing::ValuesIn(worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
