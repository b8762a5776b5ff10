// What calls took, kept in files, and what it says of a machine.

#include "plan/profile.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "api/call_times.hpp"
#include "planner/corrections.hpp"
#include "planner/planner.hpp"
#include "support/planner_machines.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::profile_test {
namespace {

namespace fs = std::filesystem;

// Calls of a plan as long as it predicts them on a machine, which may be another one than the plan's.
std::vector<profiled_call> calls_on(const hierarchy& machine, const plan_data& plan) {
    std::vector<profiled_call> all;
    for (const collective what : {collective::allreduce, collective::allgather, collective::broadcast})
        for (std::int64_t bytes = 64; bytes <= 64 * test::mib; bytes *= 8) {
            const rule& r = plan.choose(what, bytes);
            all.push_back({.what = what,
                           .bytes = bytes,
                           .calls = 10,
                           .time = predict(machine, r.stages, bytes, r.lanes, r.chunk, what).time});
        }
    return all;
}

TEST(profile, is_read_as_it_was_written) {
    const temporary_directory parent;
    const fs::path directory = parent.path() / "profiles";
    const plan_data plan = make_plan("m", test::two_racks());
    const std::vector<profiled_call> calls{{collective::allreduce, 8, 3, 1.5e-6},
                                           {collective::reduce, 1 << 20, 7, 0.25}};
    const fs::path first = write_profile(directory, plan, calls), second = write_profile(directory, plan, {calls[0]});
    EXPECT_NE(first, second);
    const std::vector<profile> all = read_profiles(directory);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].plan.id, plan.id);
    EXPECT_EQ(all[0].calls, calls);
    EXPECT_EQ(all[1].calls.size(), 1U);
}

std::string error_of(const std::string& text) {
    const temporary_directory directory;
    const plan_data plan = make_plan("m", test::two_nodes());
    const fs::path file = write_profile(directory.path(), plan, {});
    std::ofstream(file) << text;
    try {
        read_profiles(directory.path());
    } catch (const input_error& e) {
        return std::string(e.what()).substr(file.string().size());
    }
    return "nothing";
}

TEST(profile, says_what_is_wrong_with_a_file) {
    EXPECT_EQ(error_of("terrace_profile: 1\nplan: ../p.yaml\ncalls: []\n"), ":2:7: the plan is in the same directory");
    const std::string plan = make_plan("m", test::two_nodes()).id.substr(5) + ".plan.yaml";
    const auto of_call = [&](const std::string& call) {
        return error_of("terrace_profile: 1\nplan: " + plan + "\ncalls:\n  - {" + call + "}\n");
    };
    EXPECT_EQ(of_call("collective: all, bytes: 8, calls: 1, time: 1 us"), ":4:18: there is no collective all");
    EXPECT_EQ(of_call("collective: reduce, bytes: 8, calls: 1, time: 0 us"), ":4:52: a call takes more than 0");
    EXPECT_NE(of_call("collective: reduce, bytes: 0, calls: 1, time: 1 us"), "nothing");
    EXPECT_NE(error_of("terrace_profile: 2\n"), "nothing");
    const temporary_directory empty;
    EXPECT_THROW(read_profiles(empty.path()), input_error);
    EXPECT_THROW(read_profiles(empty.path() / "missing"), input_error);
}

TEST(call_times, leave_the_first_call_out_and_give_the_lower_quartile) {
    call_times times;
    times.add(collective::allreduce, 8, 100);
    EXPECT_TRUE(times.quartiles().empty());
    for (const double t : {9.0, 5.0, 7.0, 8.0, 6.0}) times.add(collective::allreduce, 8, t);
    const std::vector<profiled_call> all = times.quartiles();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0], (profiled_call{collective::allreduce, 8, 5, 6}));
    for (int n = 0; n < 1000; ++n) times.add(collective::allreduce, 8, 1);
    EXPECT_EQ(times.quartiles()[0].time, 1) << "the latest ones count";
}

TEST(corrections, find_the_machine_that_ran) {
    const hierarchy written = test::two_racks();
    const plan_data plan = make_plan("m", written);
    hierarchy real = written;
    real.levels[2].bandwidth *= 0.5;
    real.levels[1].overhead *= 2;
    real.levels[2].overhead *= 2;
    const corrected_machine found = correct(written, {{plan, calls_on(real, plan)}});
    EXPECT_GT(found.most_before, 1.8);
    EXPECT_GT(found.least, 0.95);
    EXPECT_LT(found.most, 1.05);
    EXPECT_NEAR(found.machine.levels[2].bandwidth / real.levels[2].bandwidth, 1, 0.05);
    EXPECT_FALSE(found.corrections.empty());
}

// Times of one size do not tell two levels apart: both are corrected.
TEST(corrections, are_alike_on_levels_of_one_fabric) {
    const hierarchy written = test::two_racks();
    const plan_data plan = make_plan("m", written);
    hierarchy real = written;
    for (const int l : {1, 2}) real.levels[static_cast<std::size_t>(l)].bandwidth *= 0.5;
    std::vector<profiled_call> calls = calls_on(real, plan);
    std::erase_if(calls, [](const profiled_call& c) { return c.what != collective::allreduce || c.bytes < (4 << 20); });
    ASSERT_FALSE(calls.empty());
    calls.resize(1);
    const corrected_machine found = correct(written, {{plan, calls}});
    for (const std::size_t l : {1, 2})
        EXPECT_NEAR(found.machine.levels[l].bandwidth / real.levels[l].bandwidth, 1, 0.1) << l;
}

// Shapers let 32 and 256 KiB pass faster than any rate predicts.
TEST(corrections, leave_out_what_passes_in_bursts) {
    const hierarchy machine = test::two_racks();
    const plan_data plan = make_plan("m", machine);
    std::vector<profiled_call> calls = calls_on(machine, plan);
    int fast = 0;
    for (profiled_call& c : calls)
        if (c.bytes > (16 << 10) && c.bytes <= (1 << 20)) c.time /= 4, ++fast;
    ASSERT_GT(fast, 0);
    const corrected_machine found = correct(machine, {{plan, calls}}, 128 << 10);
    EXPECT_EQ(found.in_bursts, fast);
    EXPECT_TRUE(found.corrections.empty());
    EXPECT_FALSE(correct(machine, {{plan, calls}}).corrections.empty());
}

TEST(corrections, change_nothing_where_times_are_as_predicted) {
    const hierarchy machine = test::two_racks();
    const plan_data plan = make_plan("m", machine);
    const corrected_machine found = correct(machine, {{plan, calls_on(machine, plan)}});
    EXPECT_TRUE(found.corrections.empty());
    EXPECT_NEAR(found.least, 1, 1e-9);
    EXPECT_NEAR(found.most, 1, 1e-9);
}

TEST(corrections, take_profiles_of_the_same_shape_alone) {
    const plan_data other = make_plan("m", test::two_nodes());
    const corrected_machine found = correct(test::two_racks(), {{other, calls_on(test::two_nodes(), other)}});
    EXPECT_EQ(found.sizes, 0);
    EXPECT_EQ(found.others, 1);
}

}  // namespace
}  // namespace terrace::detail::profile_test
