// Files with times of calls, and corrections of a machine by these times.

#include "plan/profile.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "calls/call_times.hpp"
#include "planner/corrections.hpp"
#include "planner/kept_rules.hpp"
#include "planner/planner.hpp"
#include "planner/tuning.hpp"
#include "support/planner_machines.hpp"
#include "support/temporary.hpp"

namespace terrace::detail::profile_test {
namespace {

namespace fs = std::filesystem;

// Returns calls of a plan with their predicted times on a machine, which may differ from the plan's.
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

// Returns the verdict about the figures that include this one.
judged_figures verdict_on(const corrected_machine& c, figure::fact what, int level) {
    for (const judged_figures& v : c.judged)
        for (const figure& f : v.of)
            if (f.what == what && f.level == level) return v;
    return {};
}

using verdict = judged_figures::verdict;
using fact = figure::fact;

TEST(corrections, find_the_machine_that_ran) {
    const hierarchy written = test::two_racks();
    const plan_data plan = make_plan("m", written);
    hierarchy real = written;
    real.levels[2].bandwidth *= 0.5;
    for (const std::size_t l : {1, 2}) real.levels[l].overhead *= 2, real.levels[l].latency *= 2;
    const corrected_machine found = correct(written, {{plan, calls_on(real, plan)}});
    EXPECT_GT(found.most_before, 1.8);
    EXPECT_GT(found.least, 0.95);
    EXPECT_LT(found.most, 1.05);
    EXPECT_NEAR(found.machine.levels[2].bandwidth / real.levels[2].bandwidth, 1, 0.05);
    EXPECT_NEAR(found.machine.levels[1].latency / real.levels[1].latency, 1, 0.05);
    EXPECT_NEAR(found.machine.levels[2].overhead / real.levels[2].overhead, 1, 0.05);
    EXPECT_TRUE(found.changed());
    EXPECT_EQ(found.unknown, 0);
    EXPECT_EQ(verdict_on(found, fact::reduction, 0).what, verdict::small_part);
}

// Only the slower of two links counts in a price. With equal links, a correction of one of them does not shorten it.
TEST(corrections, find_that_two_links_are_faster) {
    const hierarchy written = test::three_racks();
    hierarchy real = written;
    for (const std::size_t l : {1, 2}) real.levels[l].bandwidth *= 2;
    plan_data ring = make_plan("m", written);
    ring.rules[collective::allreduce] = rules_for(written, "flat-ring");
    std::vector<profiled_call> calls = calls_on(real, ring);
    std::erase_if(calls, [](const profiled_call& c) { return c.what != collective::allreduce; });
    const corrected_machine found = correct(written, {{ring, calls}});
    for (const std::size_t l : {1, 2})
        EXPECT_NEAR(found.machine.levels[l].bandwidth / real.levels[l].bandwidth, 1, 0.05) << l;
}

// Small calls take 1/16 to 16 times their price, which no factor of start-ups explains.
TEST(corrections, leave_what_calls_disagree_about) {
    const hierarchy written = test::two_racks();
    const plan_data plan = make_plan("m", written);
    hierarchy real = written;
    for (const std::size_t l : {1, 2}) real.levels[l].bandwidth *= 0.5;
    std::vector<profiled_call> calls = calls_on(real, plan);
    std::erase_if(calls, [](const profiled_call& c) { return c.bytes == 32 << 10; });
    constexpr std::array factors{4.0, 0.25, 16.0, 1.0 / 16};
    std::size_t n = 0;
    for (profiled_call& c : calls)
        if (c.bytes <= 4 << 10) c.time *= factors[n++ % factors.size()];
    const corrected_machine found = correct(written, {{plan, calls}});
    EXPECT_EQ(verdict_on(found, fact::latency, 1).what, verdict::disagreeing);
    EXPECT_EQ(found.machine.levels[1].latency, written.levels[1].latency);
    for (const std::size_t l : {1, 2})
        EXPECT_NEAR(found.machine.levels[l].bandwidth / real.levels[l].bandwidth, 1, 0.1) << l;
}

TEST(corrections, leave_rates_that_no_call_is_long_enough_for) {
    const hierarchy machine = test::two_racks();
    const plan_data plan = make_plan("m", machine);
    std::vector<profiled_call> calls = calls_on(machine, plan);
    std::erase_if(calls, [](const profiled_call& c) { return c.bytes > 64; });
    for (profiled_call& c : calls) c.time *= 2;
    const corrected_machine found = correct(machine, {{plan, calls}});
    EXPECT_EQ(verdict_on(found, fact::bandwidth, 2).what, verdict::small_part);
    EXPECT_NEAR(verdict_on(found, fact::latency, 2).factor, 2, 0.1);
}

// Times of one size cannot distinguish two levels, so both are corrected.
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

TEST(corrections, change_nothing_where_times_are_as_predicted) {
    const hierarchy machine = test::two_racks();
    const plan_data plan = make_plan("m", machine);
    const corrected_machine found = correct(machine, {{plan, calls_on(machine, plan)}});
    EXPECT_FALSE(found.changed());
    EXPECT_NEAR(found.least, 1, 1e-9);
    EXPECT_NEAR(found.most, 1, 1e-9);
}

TEST(corrections, take_profiles_of_the_same_shape_alone) {
    const plan_data other = make_plan("m", test::two_nodes());
    const corrected_machine found = correct(test::two_racks(), {{other, calls_on(test::two_nodes(), other)}});
    EXPECT_EQ(found.sizes, 0);
    EXPECT_EQ(found.others, 1);
}

double price_of(const hierarchy& machine, const rule& r, const profiled_call& c) {
    return predict(machine, r.stages, c.bytes, r.lanes, r.chunk, c.what).time;
}

// The file had eight times the true rates. Small calls were faster than prices predict.
TEST(kept_rules, stay_unless_others_are_predicted_to_be_faster) {
    const hierarchy real = test::uneven();
    hierarchy written = real;
    for (const std::size_t l : {1, 2}) written.levels[l].bandwidth *= 8;
    const plan_data old = make_plan("m", written), own = make_plan("m", real);
    std::vector<profiled_call> calls = calls_on(real, old);
    for (profiled_call& c : calls)
        if (c.bytes <= 4 << 10) c.time /= 2;
    const plan_that_keeps made = keep_what_ran(own, {{old, calls}});
    int kept = 0, replaced = 0;
    for (const profiled_call& c : calls) {
        const rule &ran = old.choose(c.what, c.bytes), &planned = own.choose(c.what, c.bytes),
                   &now = made.plan.choose(c.what, c.bytes);
        if (run_alike(ran, planned)) continue;
        if (run_alike(now, ran)) {
            ++kept;
            continue;
        }
        ++replaced;
        EXPECT_TRUE(run_alike(now, planned));
        const double promised = price_of(real, now, c) * (now.simulated > 0 ? now.simulated / now.predicted : 1);
        EXPECT_LT(promised, std::min(c.time, price_of(real, ran, c)));
    }
    EXPECT_GT(replaced, 0) << "long calls have better rules";
    int sizes = 0;
    for (const kept_range& k : made.kept) sizes += k.sizes;
    EXPECT_EQ(sizes, kept);
    for (const auto& [what, rules] : made.plan.rules) {
        EXPECT_EQ(rules.back().up_to, rule::no_bound);
        EXPECT_TRUE(std::ranges::is_sorted(rules, std::less_equal(), &rule::up_to)) << to_string(what);
        for (const rule& r : rules)
            EXPECT_NEAR(r.predicted, predict(real, r.stages, r.at, r.lanes, r.chunk, what).time, 1e-3 * r.predicted);
    }
}

// A rule that ran faster than any prediction is kept for sizes near its own.
TEST(kept_rules, are_for_sizes_near_those_that_ran) {
    const hierarchy machine = test::two_racks();
    plan_data old = make_plan("m", machine);
    const plan_data own = old;
    old.rules[collective::allreduce] = rules_for(machine, "flat-ring");
    const rule& ring = old.choose(collective::allreduce, 1 << 20);
    const auto kept_by = [&](const std::vector<profiled_call>& calls) {
        return keep_what_ran(own, {{old, calls}}).plan;
    };
    const auto is_kept = [&](const plan_data& plan, std::int64_t bytes) {
        return run_alike(plan.choose(collective::allreduce, bytes), old.choose(collective::allreduce, bytes));
    };
    ASSERT_FALSE(run_alike(ring, own.choose(collective::allreduce, 1 << 20)));
    const plan_data slow = kept_by({{collective::allreduce, 1 << 20, 9, 1}});
    EXPECT_FALSE(is_kept(slow, 1 << 20)) << "a second is more than is predicted of another rule";
    const plan_data one = kept_by({{collective::allreduce, 1 << 20, 9, 1e-6}});
    EXPECT_TRUE(is_kept(one, 1 << 20));
    EXPECT_FALSE(is_kept(one, (2 << 20) + 1));
    EXPECT_FALSE(is_kept(one, 1 << 19));
    const plan_data two = kept_by({{collective::allreduce, 1 << 20, 9, 1e-6}, {collective::allreduce, 2 << 20, 9, 1}});
    EXPECT_TRUE(is_kept(two, 1 << 20));
    EXPECT_FALSE(is_kept(two, (1 << 20) + 1)) << "the longer call speaks for it";
    EXPECT_EQ(kept_by({}).text, own.text);
}

TEST(kept_rules, are_of_machines_alike) {
    const plan_data own = make_plan("m", test::two_racks());
    const auto kept = [&](plan_data old) {
        old.rules[collective::allreduce] = rules_for(old.machine, "flat-ring");
        return !keep_what_ran(own, {{old, {{collective::allreduce, 1 << 20, 9, 1e-6}}}}).kept.empty();
    };
    EXPECT_TRUE(kept(own));
    plan_data other = own;
    other.machine.levels[2].wire = wire_type::bfloat16;
    EXPECT_FALSE(kept(other));
    EXPECT_FALSE(kept(make_plan("m", test::two_nodes())));
}

}  // namespace
}  // namespace terrace::detail::profile_test
