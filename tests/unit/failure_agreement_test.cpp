// Agreement on failed ranks: the verdict that follows from evidence, and equal verdicts on all ranks.

#include <bit>
#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/index.hpp"
#include "control/membership/failure_agreement.hpp"
#include "support/control_world.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test::failure_agreement_test {

namespace {

using enum evidence;
using known_failures = std::set<testimony_of_failure>;

constexpr std::chrono::duration<double> patience(0.05);

testimony_of_failure seen(int rank, evidence by) { return {.rank = rank, .by = rank, .shows = by}; }
testimony_of_failure pair_of(int by, int rank) { return {.rank = rank, .by = by, .shows = unacknowledged}; }

// Ranks of one process that act by turns. Dead ranks send nothing.
struct agreeing_ranks {
    explicit agreeing_ranks(int size, std::chrono::duration<double> how_patient = patience) : world(size) {
        for (int r = 0; r < size; ++r) {
            nets.push_back(std::make_unique<endpoint>(world.join(r), 1));
            routers.push_back(std::make_unique<control_router>(*nets.back()));
            all.push_back(std::make_unique<failure_agreement>(*routers.back(), how_patient));
        }
    }
    failure_agreement& of(int rank) { return *all[static_cast<std::size_t>(rank)]; }
    bool step(int rank, bool all_come = false) {
        routers[static_cast<std::size_t>(rank)]->receive();
        return of(rank).advance(all_come);
    }
    // Lets these ranks act by turns until all have a verdict, or for 100 turns. Returns true if all have one.
    bool decide(const std::vector<int>& ranks, bool all_come = false) {
        for (int turn = 0; turn < 100; ++turn) {
            bool done = true;
            for (const int r : ranks) done = step(r, all_come) && done;
            if (done) return true;
            std::this_thread::sleep_for(patience / 20);
        }
        return false;
    }

    control_world world;
    std::vector<std::unique_ptr<endpoint>> nets;
    std::vector<std::unique_ptr<control_router>> routers;
    std::vector<std::unique_ptr<failure_agreement>> all;
};

std::vector<int> all_but(int size, const std::set<int>& ranks) {
    std::vector<int> others;
    for (int r = 0; r < size; ++r)
        if (!ranks.contains(r)) others.push_back(r);
    return others;
}

}  // namespace

TEST(failure_agreement, judges_by_the_surest_evidence) {
    EXPECT_EQ(judge({}), failed_ranks{});
    EXPECT_EQ(judge({seen(3, stopped_by_signal), seen(3, process_ended)}), (failed_ranks{{3, process_ended}}));
    EXPECT_EQ(judge({seen(3, process_ended), pair_of(1, 3)}), (failed_ranks{{3, process_ended}}));
    EXPECT_EQ(judge({seen(3, process_ended), pair_of(1, 2)}), (failed_ranks{{2, unacknowledged}, {3, process_ended}}));
}

TEST(failure_agreement, judges_the_side_of_a_cut_that_fewer_are_on) {
    // Node {4, 5} of three is cut off. Of two nodes of two, equal in size, the node without rank 0 has failed.
    EXPECT_EQ(judge({pair_of(0, 4), pair_of(2, 4), pair_of(1, 5), pair_of(3, 5)}),
              (failed_ranks{{4, unacknowledged}, {5, unacknowledged}}));
    EXPECT_EQ(judge({pair_of(4, 0), pair_of(4, 2), pair_of(5, 1), pair_of(5, 3)}),
              (failed_ranks{{4, unacknowledged}, {5, unacknowledged}}));
    EXPECT_EQ(judge({pair_of(0, 2), pair_of(1, 3)}), (failed_ranks{{2, unacknowledged}, {3, unacknowledged}}));
}

TEST(failure_agreement, judges_for_who_is_in_reach_of_others) {
    const testimony_of_failure by_2{.rank = 2, .by = 0, .shows = acknowledged};
    EXPECT_EQ(judge({pair_of(2, 1)}), (failed_ranks{{2, unacknowledged}}));
    EXPECT_EQ(judge({pair_of(2, 1), by_2}), (failed_ranks{{1, unacknowledged}}));
    EXPECT_EQ(judge({by_2}), failed_ranks{});
}

TEST(failure_agreement, judges_for_who_has_more_lines) {
    const testimony_of_failure by_2{.rank = 2, .by = 0, .shows = acknowledged};
    EXPECT_EQ(judge({pair_of(1, 2)}, {2, 1, 2}), (failed_ranks{{1, unacknowledged}}));
    EXPECT_EQ(judge({pair_of(1, 2), by_2}, {2, 2, 1}), (failed_ranks{{2, unacknowledged}}));
    EXPECT_EQ(judge({pair_of(1, 2), pair_of(0, 2)}, {1, 1, 2}), (failed_ranks{{2, unacknowledged}}));
}

TEST(failure_agreement, knows_both_ranks_of_a_pair) {
    agreeing_ranks r(4);
    r.of(0).add(pair_of(0, 2));
    r.of(0).add(seen(3, process_ended));
    EXPECT_TRUE(r.of(0).knowledge().is_in_a_pair(0));
    EXPECT_TRUE(r.of(0).knowledge().is_in_a_pair(2));
    EXPECT_FALSE(r.of(0).knowledge().is_in_a_pair(1));
    EXPECT_FALSE(r.of(0).knowledge().is_in_a_pair(3));
}

TEST(failure_agreement, all_name_what_one_has_found) {
    agreeing_ranks ranks(5);
    for (int r = 0; r < 5; ++r) EXPECT_FALSE(ranks.step(r));
    ranks.of(0).add(seen(3, process_ended));
    ASSERT_TRUE(ranks.decide({0, 1, 2, 4}));
    for (const int r : {0, 1, 2, 4}) EXPECT_EQ(ranks.of(r).verdict(), (failed_ranks{{3, process_ended}})) << r;
}

TEST(failure_agreement, who_fails_while_ranks_agree_is_named_by_all_or_none) {
    for (int steps = 0; steps < 8; ++steps) {
        agreeing_ranks ranks(5);
        ranks.of(4).add(seen(3, process_ended));
        for (int s = 0; s < steps; ++s) ranks.step(s % 2 == 0 ? 4 : s / 2);  // then rank 4 is silent
        ranks.of(1).add(seen(4, process_ended));
        ASSERT_TRUE(ranks.decide({0, 1, 2})) << steps;
        EXPECT_EQ(ranks.of(0).verdict(), ranks.of(1).verdict()) << steps;
        EXPECT_EQ(ranks.of(0).verdict(), ranks.of(2).verdict()) << steps;
    }
}

TEST(failure_agreement, who_makes_no_call_is_not_waited_for_and_adopts_the_verdict) {
    agreeing_ranks ranks(4);
    ranks.of(0).add(seen(3, stopped_by_signal));
    ASSERT_TRUE(ranks.decide({0, 1}));
    EXPECT_EQ(ranks.of(0).verdict(), (failed_ranks{{3, stopped_by_signal}}));
    ranks.of(2).add(seen(1, process_ended));  // rank 2 is late, and has more evidence
    ASSERT_TRUE(ranks.decide({2}));
    EXPECT_EQ(ranks.of(2).verdict(), ranks.of(0).verdict());
}

TEST(failure_agreement, a_rank_learns_that_it_is_given_up) {
    agreeing_ranks ranks(3);
    ranks.of(0).add(seen(2, stopped_by_signal));
    ASSERT_TRUE(ranks.decide({0, 1, 2}));
    EXPECT_EQ(ranks.of(2).verdict(), (failed_ranks{{2, stopped_by_signal}}));
}

TEST(failure_agreement, names_no_side_of_a_cut_while_more_may_be_found) {
    agreeing_ranks ranks(3);
    ranks.of(1).add(pair_of(0, 1));
    ranks.of(1).expect_more(true);
    EXPECT_FALSE(ranks.decide({1}));
    ranks.of(1).add(pair_of(2, 1));
    ranks.of(1).expect_more(false);
    ASSERT_TRUE(ranks.decide({1}));
    EXPECT_EQ(ranks.of(1).verdict(), (failed_ranks{{1, unacknowledged}}));
}

TEST(failure_agreement, who_is_cut_off_waits_for_nobody_in_a_later_round) {
    agreeing_ranks ranks(3);
    ranks.of(1).next_round();
    ranks.of(1).add(pair_of(2, 1));
    EXPECT_FALSE(ranks.decide({1}, true));
    ranks.of(1).add(pair_of(0, 1));
    ASSERT_TRUE(ranks.decide({1}, true));
    EXPECT_EQ(ranks.of(1).verdict(), (failed_ranks{{1, unacknowledged}}));
}

TEST(failure_agreement, a_later_round_knows_more_and_waits_for_all) {
    agreeing_ranks ranks(4);
    ranks.of(0).add(seen(3, process_ended));
    ASSERT_TRUE(ranks.decide({0, 1, 2}));
    for (const int r : {0, 1, 2}) ranks.of(r).next_round();
    ranks.of(1).add(seen(2, process_ended));
    EXPECT_FALSE(ranks.decide({1}, true));
    EXPECT_EQ(ranks.of(1).silent(), std::vector{0});
    ASSERT_TRUE(ranks.decide({0, 1}, true));
    for (const int r : {0, 1}) EXPECT_EQ(ranks.of(r).verdict(), (failed_ranks{{2, process_ended}, {3, process_ended}}));
}

TEST(failure_agreement, ranks_that_all_come_may_agree_that_none_has_failed) {
    agreeing_ranks ranks(4);
    for (int r = 0; r < 4; ++r) ranks.of(r).next_round();
    EXPECT_FALSE(ranks.decide({0, 1, 2}, true));
    EXPECT_EQ(ranks.of(0).silent(), std::vector{3});
    ASSERT_TRUE(ranks.decide({0, 1, 2, 3}, true));
    for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.of(r).verdict(), failed_ranks{}) << r;
    for (int r = 0; r < 4; ++r) ranks.of(r).next_round();
    for (int r = 0; r < 4; ++r) EXPECT_FALSE(ranks.step(r)) << r;
    ranks.of(2).add(seen(1, process_ended));
    ASSERT_TRUE(ranks.decide({0, 2, 3}));
    for (const int r : {0, 2, 3}) EXPECT_EQ(ranks.of(r).verdict(), (failed_ranks{{1, process_ended}})) << r;
}

TEST(failure_agreement, who_fails_while_all_agree_that_none_has_is_named_by_all) {
    agreeing_ranks ranks(4);
    for (int r = 0; r < 4; ++r) ranks.of(r).next_round();
    EXPECT_FALSE(ranks.step(0, true));
    ranks.of(1).add(seen(3, process_ended));
    ASSERT_TRUE(ranks.decide({0, 1, 2}, true));
    for (const int r : {0, 1, 2}) EXPECT_EQ(ranks.of(r).verdict(), (failed_ranks{{3, process_ended}})) << r;
}

TEST(failure_agreement, names_all_that_have_not_come_at_any_size) {
    agreeing_ranks ranks(300);
    const std::set<int> late{0, 7, 8, 9, 10, 11, 100, 257, 299};
    for (int r = 0; r < 300; ++r) ranks.of(r).next_round();
    EXPECT_FALSE(ranks.decide(all_but(300, late), true));
    for (const int r : all_but(300, late)) {
        const std::vector<int> silent = ranks.of(r).silent();
        EXPECT_EQ(std::set<int>(silent.begin(), silent.end()), late) << r;
    }
    EXPECT_TRUE(ranks.decide(all_but(300, {}), true));
}

TEST(failure_agreement, what_is_known_passes_by_ranks_that_make_no_call) {
    agreeing_ranks ranks(65);
    std::set<int> silent{64};  // 64 is dead, and all contacts of rank 0 are silent
    for (const int d : {1, 2, 4, 8, 16, 32}) silent.insert({d, 64 - d});
    ranks.of(0).add(seen(64, process_ended));
    ASSERT_TRUE(ranks.decide(all_but(65, silent)));
    for (const int r : all_but(65, silent)) {
        EXPECT_EQ(ranks.of(r).verdict(), (failed_ranks{{64, process_ended}})) << r;
        EXPECT_LE(ranks.world.of(r).peers.size(), 4 * 6) << r;
    }
}

TEST(failure_agreement, each_rank_speaks_to_few_others) {
    for (const int size : {64, 512, 2048}) {
        agreeing_ranks ranks(size, std::chrono::hours(1));
        const std::vector<int> live = all_but(size, {size / 3});
        ranks.of(size / 2).add(seen(size / 3, process_ended));
        ranks.of(size / 5).add(seen(size / 3, process_ended));
        const auto begin = std::chrono::steady_clock::now();
        ASSERT_TRUE(ranks.decide(live)) << size;
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        const auto steps = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(size - 1)));
        std::size_t peers = 0, messages = 0;
        for (const int r : live) {
            EXPECT_EQ(ranks.of(r).verdict(), (failed_ranks{{size / 3, process_ended}})) << r;
            peers = std::max(peers, ranks.world.of(r).peers.size());
            messages = std::max(messages, ranks.world.of(r).sent);
        }
        EXPECT_LE(peers, 3 * steps);
        EXPECT_LE(messages, 8 * steps);
        std::printf("%d ranks in one thread agree after %.3f s; a rank spoke to at most %zu others, %zu messages\n",
                    size, took.count(), peers, messages);
    }
}

// Any number of ranks die at random points, and some other ranks detect it, one after another.
TEST(failure_agreement, all_name_the_same_however_ranks_die) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        dice d(seed);
        const int size = d.pick(std::vector{2, 3, 4, 5, 6, 8, 11, 16, 40});
        agreeing_ranks ranks(size, std::chrono::hours(1));
        std::set<int> dead;
        const bool all_come = d.coin();
        const std::size_t doomed = all_come ? d.below(at(size)) : 1 + d.below(at(size - 1));
        for (int round = 0; round < 3; ++round) {
            std::set<int> left = dead, decided;  // dead or decided; decided and alive
            for (int turn = 0; left.size() < at(size); ++turn) {
                ASSERT_LT(turn, 100'000) << "seed " << seed << ", round " << round;
                const int r = static_cast<int>(d.below(at(size)));
                if (dead.contains(r)) continue;
                if (dead.size() < doomed && d.below(8) == 0) {
                    ranks.world.kill(r, d);
                    dead.insert(r);
                    left.insert(r);
                    decided.erase(r);
                    continue;
                }
                if (!dead.empty() && d.below(4) == 0) {
                    const int whom = d.pick(std::vector<int>(dead.begin(), dead.end()));
                    ranks.of(r).add(seen(whom, d.coin() ? process_ended : connection_closed));
                }
                ranks.world.of(r).may_take = d.below(12);
                if (!ranks.step(r, all_come)) continue;
                left.insert(r);
                decided.insert(r);
            }
            for (const int r : decided) {
                EXPECT_EQ(ranks.of(r).verdict(), ranks.of(*decided.begin()).verdict()) << "seed " << seed;
                for (const auto& [who, by] : ranks.of(r).verdict()) EXPECT_TRUE(dead.contains(who)) << "seed " << seed;
            }
            for (const int r : decided) ranks.of(r).next_round();
        }
    }
}

}  // namespace terrace::detail::test::failure_agreement_test
