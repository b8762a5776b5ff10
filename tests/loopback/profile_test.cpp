// options::profile_directory.

#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "plan/plan_access.hpp"
#include "plan/profile.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::test::profile_test {
namespace {

TEST(profile_directory, has_what_calls_took_that_were_waited_for) {
    const temporary_directory directory;
    options o;
    o.profile_directory = directory.path();
    o.check = options::checking::off;  // comparing a call delays it
    const plan p = plan_of_all_collectives(machine_of(tree::uniform(std::vector{4})));
    loopback::run(
        p,
        [](communicator& comm) {
            std::vector<float> data(1000, 1);
            for (int n = 0; n < 4; ++n) comm.allreduce(data);
            for (int n = 0; n < 4; ++n) {
                request r = comm.allreduce_async(data);
                comm.barrier();
                r.wait();  // its time includes the barrier's
            }
            comm.barrier();
            for (int n = 0; n < 3; ++n) comm.broadcast(data, 0);  // completes on the root before the others
            std::vector<float> of_all(4);
            comm.allgather(std::span<const float>(data).first(1), of_all);  // once
        },
        o);
    const std::vector<profile> all = read_profiles(directory.path());
    ASSERT_EQ(all.size(), 1U) << "rank 0 alone writes";
    EXPECT_EQ(all[0].plan.id, data_of(p).id);
    ASSERT_EQ(all[0].calls.size(), 1U);
    EXPECT_EQ(all[0].calls[0].what, collective::allreduce);
    EXPECT_EQ(all[0].calls[0].bytes, 4000);
    EXPECT_EQ(all[0].calls[0].calls, 3) << "those that were waited for at once";
}

TEST(profile_directory, stays_empty_where_bits_are_fixed) {
    const temporary_directory directory;
    options o;
    o.profile_directory = directory.path();
    o.reproducible = true;
    loopback::run(
        plan_of_all_collectives(machine_of(tree::uniform(std::vector{2}))),
        [](communicator& comm) {
            std::vector<float> data(10, 1);
            for (int n = 0; n < 3; ++n) comm.allreduce(data);
        },
        o);
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace terrace::detail::test::profile_test
