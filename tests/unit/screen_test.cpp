// Which candidates are fast enough, and which of them is picked.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "planner/pick.hpp"
#include "planner/policy.hpp"
#include "planner/screen.hpp"
#include "planner/simulated_choice.hpp"
#include "support/planner_machines.hpp"

namespace terrace::detail::test::screen_test {
namespace {

// All candidates of a machine, screened at 1 MiB.
struct screened {
    explicit screened(hierarchy machine, collective what = collective::allreduce)
        : h(std::move(machine)), list(candidates_of(h, what)), s(h, list, floor_of(list)) {
        s.tune_for(mib);
    }
    screened(const screened&) = delete;

    static std::vector<priced_candidate> candidates_of(const hierarchy& h, collective what) {
        pricer prices(h);
        return search(prices, what);
    }

    hierarchy h;
    std::vector<priced_candidate> list;
    screen s;
};

TEST(screen, nothing_slower_than_the_floor_is_fast_enough) {
    const screened of(two_racks());
    const std::vector<std::size_t> good = of.s.fast_enough(mib / 2, mib);
    EXPECT_FALSE(good.empty());
    for (const std::size_t i : good)
        for (const double bytes : {0.5 * mib, 0.75 * mib, 1.0 * mib})
            for (const std::size_t f : of.s.floor())
                EXPECT_LE(of.s.time(i, bytes), of.s.time(f, bytes) * (1 + 1e-6)) << describe(of.h, of.s[i].what.stages);
}

TEST(screen, leaves_out_what_cannot_be_near_the_best) {
    const screened of(two_racks());
    double best = 1e9;
    std::size_t left_out = 0;
    for (std::size_t i = 0; i < of.list.size(); ++i)
        if (of.s.how(i).time > 0) best = std::min(best, of.s.how(i).time);
    for (std::size_t i = 0; i < of.list.size(); ++i) {
        if (of.s.how(i).time > 0) continue;
        ++left_out;
        EXPECT_FALSE(of.s.is_floor(i));
        EXPECT_GT(of.s[i].cost.at_least(mib), best * policy.far_off);
    }
    EXPECT_GT(left_out, 0U);
}

TEST(pick, is_about_the_fastest) {
    const screened of(two_racks());
    const std::vector<std::size_t> good = of.s.fast_enough(mib / 2, mib);
    const std::size_t picked = pick(of.s, good, no_candidate, mib);
    for (const std::size_t i : good) EXPECT_LE(of.s.time(picked, mib), of.s.time(i, mib) * policy.equal);
}

// A choice stands as long as it is one of the equally fast; else fewer stages are better.
TEST(pick, keeps_the_previous_choice_among_equals) {
    const screened of(two_racks());
    const std::vector<std::size_t> fast = equally_fast(of.s, of.s.fast_enough(mib / 2, mib), mib);
    const std::size_t picked = pick(of.s, fast, no_candidate, mib);
    EXPECT_EQ(pick(of.s, fast, picked, mib), picked);
    EXPECT_EQ(pick(of.s, fast, of.list.size(), mib), picked) << "a previous choice that is not fast now";
}

TEST(pick, has_a_baseline_where_nothing_is_fast_enough) {
    const screened of(two_racks());
    EXPECT_LT(pick(of.s, {}, no_candidate, mib), of.list.size());
}

choice simulated(std::size_t candidate, tuning how, double time) {
    how.simulated = time;
    return {candidate, how};
}

// Baselines: a ring over all ranks, and one of several stages.
struct floor_places {
    explicit floor_places(const screened& of) {
        for (const std::size_t f : of.s.floor()) (of.list[f].what.stages.size() == 1 ? ring : levels) = f;
    }

    std::size_t ring = no_candidate, levels = no_candidate;
};

TEST(pick_simulated, is_never_slower_than_the_floor) {
    const screened of(two_racks());
    const std::size_t other = of.list.size() - 1, floor = floor_places(of).levels;
    const auto picked = [&](double of_other, double of_floor) {
        return pick_simulated(of.s,
                              {simulated(other, {2, 64 * kib}, of_other), simulated(floor, of.s.how(floor), of_floor)},
                              other, mib)
            .candidate;
    };
    EXPECT_EQ(picked(1.00, 1.02), other);
    EXPECT_EQ(picked(1.03, 1.02), floor);
    EXPECT_EQ(picked(1.00, 2.00), other);
    // Run in another way than the floor's own, a baseline is a candidate as any other.
    const tuning another{of.s.how(floor).lanes + 1, 64 * kib};
    EXPECT_EQ(pick_simulated(of.s, {simulated(other, {2, 64 * kib}, 1.03), simulated(floor, another, 1.02)}, other, mib)
                  .candidate,
              other);
}

// Of candidates that are alike a baseline of several stages is preferred, and a ring over all ranks comes last.
TEST(pick_simulated, prefers_no_ring_over_all_ranks) {
    const screened of(two_racks());
    const floor_places places(of);
    const std::size_t ring = places.ring, levels = places.levels, other = of.list.size() - 1;
    const auto picked = [&](double of_other, double of_levels) {
        return pick_simulated(of.s,
                              {simulated(other, {2, 64 * kib}, of_other), simulated(ring, of.s.how(ring), 1.0),
                               simulated(levels, of.s.how(levels), of_levels)},
                              ring, mib)
            .candidate;
    };
    EXPECT_EQ(picked(1.5, 1.0), levels);
    EXPECT_EQ(picked(1.04, 1.5), other);
    EXPECT_EQ(picked(1.06, 1.5), ring);
}

TEST(pick_simulated, keeps_what_is_wanted) {
    const screened of(two_racks());
    const auto effort = [&](std::size_t i) { return of.s.effort(i, of.s.how(i), mib); };
    std::vector<choice> tried;
    for (std::size_t i = 0; i < of.list.size(); ++i)
        if (of.list[i].what.stages.size() > 1) tried.push_back(simulated(i, of.s.how(i), 1.0));
    const auto least = std::min_element(tried.begin(), tried.end(), [&](const choice& a, const choice& b) {
        return effort(a.candidate) < effort(b.candidate);
    });
    const std::size_t wanted = tried[least == tried.begin() ? 1 : 0].candidate;
    EXPECT_EQ(pick_simulated(of.s, tried, wanted, mib).candidate, wanted);
}

// Lanes over a network may get into each other's way; to or from a root where nodes have several NICs.
TEST(simulated_choice, is_for_lanes_and_for_blocks) {
    const screened reduced(two_racks()), rooted(two_racks(), collective::broadcast),
        node(machine(tree::uniform(std::vector{4}))), nics(with_nics(two_racks(), "{count: 3}"), collective::broadcast);
    const choice in_lanes{0, {2, 64 * kib}}, in_one_piece{0, {1, 0}};
    EXPECT_TRUE(worth_simulating(reduced.s, in_lanes, mib));
    EXPECT_TRUE(worth_simulating(reduced.s, in_one_piece, mib)) << "too long for one piece";
    EXPECT_FALSE(worth_simulating(reduced.s, in_one_piece, 8 * kib));
    EXPECT_FALSE(worth_simulating(rooted.s, in_lanes, mib));
    EXPECT_TRUE(worth_simulating(nics.s, in_lanes, mib));
    EXPECT_TRUE(worth_simulating(nics.s, in_one_piece, mib));
    EXPECT_FALSE(worth_simulating(nics.s, in_one_piece, 8 * kib));
    EXPECT_FALSE(worth_simulating(node.s, in_lanes, mib)) << "simulations know nothing of caches";
}

// A rule that a simulation confirms stays as it is; where lanes hinder each other, the rule says what was simulated.
TEST(simulated_choice, stands_where_a_simulation_agrees) {
    const screened of(two_nodes());
    trials t(of.h, collective::allreduce);
    const std::vector<std::size_t> good = of.s.fast_enough(mib / 2, mib);
    const std::size_t picked = pick(of.s, good, no_candidate, mib);
    const choice predicted{picked, of.s.how(picked)};
    const choice chosen = choose_by_simulation(t, of.s, predicted, good, mib / 2, mib);
    if (chosen.how.simulated == 0) EXPECT_EQ(chosen.candidate, picked);
    else EXPECT_GT(chosen.how.simulated, 0);
}

}  // namespace
}  // namespace terrace::detail::test::screen_test
