// Gradients over every transport: random training runs against a serial oracle.

#include <functional>

#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "support/effort.hpp"
#include "support/gradient_runs.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"
#include "support/sparse_runs.hpp"

namespace terrace::detail::test {

namespace {

class gradients : public testing::TestWithParam<world> {
protected:
    // Runs with other seeds on each number of ranks. No result may be wrong or differ between ranks.
    void expect_exact(int runs, const std::function<outcome(communicator&, std::uint64_t)>& train_some) {
        for (int ranks : GetParam().sizes) {
            const plan p = plan_of_all_collectives(machines_of_size(ranks).back());
            for (int n = 0; n < runs; ++n) {
                const std::uint64_t random = seed() + static_cast<std::uint64_t>(1000 * ranks + n);
                const report seen = GetParam().run(
                    p, [&](communicator& comm) { return std::vector<outcome>{train_some(comm, random)}; });
                for (const std::vector<outcome>& rank : seen) {
                    EXPECT_EQ(rank[0].wrong, 0) << ranks << " ranks, seed " << random;
                    EXPECT_EQ(rank[0].digest, seen[0][0].digest) << ranks << " ranks, seed " << random;
                }
                if (HasFailure()) return;
            }
        }
    }
};

}  // namespace

TEST_P(gradients, random_iterations_are_exact) {
    constexpr int iterations = 10;
    const int runs = share("random training runs of each number of ranks", 200, 4);  // 2,000 iterations
    expect_exact(runs, [](communicator& comm, std::uint64_t random) { return train(comm, {random, iterations}); });
}

TEST_P(gradients, random_sparse_iterations_are_exact) {
    constexpr int iterations = 6;
    const int runs = share("random training runs of sparse gradients", 100, 2);
    expect_exact(runs, [](communicator& comm, std::uint64_t random) { return train_sparse(comm, random, iterations); });
}

INSTANTIATE_TEST_SUITE_P(, gradients, testing::ValuesIn(worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
