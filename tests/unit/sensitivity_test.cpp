// Changes in a plan if an assumed figure has half or twice its value.

#include "planner/sensitivity.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "support/planner_machines.hpp"

namespace terrace::detail::sensitivity_test {
namespace {

using fact = figure::fact;

// Returns two racks of two nodes of 3 ranks, without assumed figures.
hierarchy given_machine() {
    hierarchy h = test::two_racks();
    for (level& l : h.levels) l.bandwidth_assumed = l.latency_assumed = l.overhead_assumed = false;
    h.processors.reduction = 8e9;
    return h;
}

std::vector<figure> assumed_figures(const hierarchy& machine) {
    std::vector<figure> all = figures_of(machine);
    std::erase_if(all, [](const figure& f) { return !f.assumed; });
    return all;
}

TEST(sensitivity, finds_what_is_assumed) {
    hierarchy h = given_machine();
    EXPECT_TRUE(assumed_figures(h).empty());
    EXPECT_TRUE(sensitivities(make_plan("m", h), true).empty());
    h.levels[2].bandwidth_assumed = true;
    h.levels[1].latency_assumed = true;
    h.processors.reduction = 0;
    const std::vector<figure> all = assumed_figures(h);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].what, fact::latency);
    EXPECT_EQ(all[0].level, 1);
    EXPECT_EQ(all[1].what, fact::bandwidth);
    EXPECT_EQ(all[1].value, h.levels[2].bandwidth);
    EXPECT_EQ(all[2].what, fact::reduction);
    EXPECT_DOUBLE_EQ(all[2].value, 8e9);
}

TEST(sensitivity, changes_one_figure) {
    hierarchy h = test::unequal_links(0.5e9);
    const level before = h.levels[1];
    const hierarchy twice = with_figure(h, {fact::bandwidth, 1, before.bandwidth}, 2);
    EXPECT_EQ(twice.levels[1].bandwidth, 2 * before.bandwidth);
    EXPECT_EQ(twice.levels[1].rates.back(), 2 * before.rates.back());
    EXPECT_EQ(twice.levels[1].latency, before.latency);
    EXPECT_EQ(twice.levels[0].bandwidth, h.levels[0].bandwidth);
    EXPECT_EQ(with_figure(h, {fact::latency, 1, before.latency}, 0.5).levels[1].latency, before.latency / 2);
    EXPECT_EQ(with_figure(h, {fact::reduction, 0, 8e9}, 2).processors.reduction, 16e9);
}

// The racks' links are the bottleneck of large messages, and their latency dominates small ones.
TEST(sensitivity, the_bottleneck_comes_first) {
    hierarchy h = given_machine();
    for (level& l : h.levels) l.bandwidth_assumed = true;
    const std::vector<sensitivity> all = sensitivities(make_plan("m", h), false, collective::allreduce);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].of.level, 2);
    EXPECT_NEAR(all[0].change(), 2, 0.05);
    EXPECT_GE(all[0].time_at, 1 << 20);
    EXPECT_TRUE(std::ranges::is_sorted(all, std::greater(), &sensitivity::change));
    for (const sensitivity& s : all) {
        EXPECT_TRUE(s.of.level > 0 || s.change() < 1.3) << "memory: " << s.change();
        EXPECT_EQ(s.factor, 0.5) << "of a rate the half is worse";
        EXPECT_GE(s.time, 1) << s.of.level;
    }
}

// A plan made for the other value is at least as fast with that value, and faster if it needs other stages.
TEST(sensitivity, gains_are_of_plans_made_anew) {
    hierarchy h = given_machine();
    h.levels[1].latency_assumed = h.levels[2].latency_assumed = h.levels[2].bandwidth_assumed = true;
    const plan_data plan = make_plan("m", h);
    double most = 1;
    for (const sensitivity& s : sensitivities(plan, true)) {
        EXPECT_GE(s.gain, 1);
        if (s.choice.empty()) continue;
        most = std::max(most, s.gain);
        const hierarchy other = with_figure(h, s.of, s.factor);
        const auto ranked = rank_candidates(other, s.gain_at, s.gain_of);
        EXPECT_EQ(ranked.front().what.stages, s.choice);
        const auto own = std::ranges::find(plan.rules.at(s.gain_of), s.gain_at, &rule::at);
        const double kept = predict(other, own->stages, own->at, own->lanes, own->chunk, s.gain_of).time;
        EXPECT_GE(kept, ranked.front().how.predicted);
    }
    EXPECT_GT(most, 1);
}

}  // namespace
}  // namespace terrace::detail::sensitivity_test
