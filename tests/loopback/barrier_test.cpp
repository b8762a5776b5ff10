// Barriers: no rank leaves before all ranks have arrived, with any plan, and with other calls in flight.

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "plan/plan_access.hpp"
#include "support/bad_calls.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::barrier_test {

namespace {

std::vector<plan> plans() {
    std::vector<plan> all;
    for (const int ranks : {2, 3, 8, 11})
        for (const auto& [how, by] : {std::pair{mode::scatter, "ring"}, std::pair{mode::root, "direct"},
                                      std::pair{mode::scatter, "shared_memory"}}) {
            const hierarchy machine = machine_of(tree::uniform(std::vector{ranks}));
            all.push_back(plan_of(machine, {run_by({{0}, ranks, how}, by)}, 2, 8192));
        }
    return all;
}

TEST(barrier, nobody_leaves_before_all_have_come) {
    for (const plan& p : plans()) {
        constexpr int rounds = 30;
        std::array<std::atomic<int>, rounds> come{};
        loopback::run(p, [&](communicator& comm) {
            for (int round = 0; round < rounds; ++round) {
                if (comm.rank() == round % comm.size()) std::this_thread::sleep_for(std::chrono::microseconds(200));
                ++come[static_cast<std::size_t>(round)];
                comm.barrier();
                EXPECT_EQ(come[static_cast<std::size_t>(round)], comm.size());
            }
        });
    }
}

TEST(barrier, runs_beside_other_calls) {
    for (const plan& p : plans())
        loopback::run(p, [&](communicator& comm) {
            std::vector<std::vector<int>> data(20, std::vector<int>(300, comm.rank()));
            std::vector<request> sums, barriers;
            for (std::vector<int>& each : data) {
                barriers.push_back(comm.barrier_async());
                sums.push_back(comm.allreduce_async(each));
            }
            for (std::size_t i = 0; i < data.size(); ++i) barriers[data.size() - 1 - i].wait();
            wait_all(sums);
            for (const std::vector<int>& each : data)
                EXPECT_EQ(each, std::vector<int>(300, comm.size() * (comm.size() - 1) / 2));
        });
}

TEST(barrier, is_another_call_than_what_it_runs_as) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{3}));
    const plan p = plan_of(machine, {run_by({{0}, 3, mode::scatter}, "ring")}, 1, 8192);
    options o;
    o.check = options::checking::every;
    std::atomic<int> refused{0};
    loopback::run(
        p,
        [&](communicator& comm) {
            std::uint8_t byte = 1;
            try {
                if (comm.rank() == 1) comm.allreduce(std::span(&byte, 1), reduce_op::max);
                else comm.barrier();
            } catch (const usage_error& e) {
                ++refused;
                EXPECT_NE(std::string(e.what()).find("barrier"), std::string::npos) << e.what();
            }
        },
        o);
    EXPECT_EQ(refused, 3);
}

}  // namespace

}  // namespace terrace::detail::test::barrier_test
