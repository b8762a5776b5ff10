// All ranks change to another plan at the same call, while calls are in flight.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "api/core.hpp"
#include "api/plan_follower.hpp"
#include "base/hash.hpp"
#include "plan/plan_access.hpp"
#include "support/dice.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test::plan_changes_test {

namespace {

hierarchy four_nodes() {
    hierarchy machine = machine_of(tree::uniform(std::vector{2, 4}));
    machine.levels[1].medium = fabric::ethernet;
    return machine;
}

// Returns two plans that add in different orders.
std::vector<plan> two_plans() {
    return {plan_of(four_nodes(),
                    {{{0}, 2, mode::scatter, "", provider::shared_memory}, {{1}, 4, mode::scatter, "ring"}}, 2, 4096),
            plan_of(four_nodes(), {{{0, 1}, 8, mode::scatter, "ring"}})};
}

struct outcome {
    std::vector<std::uint64_t> hashes;  // of each call's result
    int proposals = 0;
};

// Makes calls, up to four of which are in flight, while rank 0 proposes the two plans alternately.
outcome run(communicator& comm, int calls, const std::vector<plan>& plans, bool some_sleep) {
    constexpr std::size_t count = 5000;
    outcome o;
    dice d(static_cast<std::uint64_t>(comm.rank()));
    std::deque<std::pair<std::vector<float>, request>> open;
    const auto end_first = [&] {
        open.front().second.wait();
        o.hashes.push_back(hash_of(open.front().first.data(), count * sizeof(float)));
        open.pop_front();
    };
    plan_changes& changes = core_of(comm).control().plan_change;
    for (int call = 0; call < calls; ++call) {
        if (comm.rank() == 0 && changes.is_idle() && call + 50 < calls)
            changes.propose(data_of(plans[at(++o.proposals % 2)]).text);
        if (some_sleep && d.below(50) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(d.below(8)));
        std::vector<float> data(count);
        for (std::size_t i = 0; i < count; ++i)
            data[i] = 1.0f / static_cast<float>(1 + comm.rank() + static_cast<int>(i % 97));
        open.emplace_back(std::move(data), request{});
        open.back().second = comm.allreduce_async(std::span(open.back().first));
        if (open.size() == 4) end_first();
    }
    while (!open.empty()) end_first();
    return o;
}

std::vector<outcome> run_all(int calls, bool some_sleep, options o = {}) {
    o.adapt = options::adapting::on;
    const std::vector<plan> plans = two_plans();
    std::vector<outcome> all(8);
    loopback::run(
        plans[0],
        [&](communicator& comm) { all[static_cast<std::size_t>(comm.rank())] = run(comm, calls, plans, some_sleep); },
        o);
    return all;
}

}  // namespace

TEST(plan_changes, all_ranks_have_the_same_bits_and_both_plans_run) {
    for (const bool some_sleep : {false, true}) {
        const std::vector<outcome> all = run_all(1500, some_sleep);
        for (const outcome& o : all) EXPECT_EQ(o.hashes, all[0].hashes);
        EXPECT_EQ(std::set(all[0].hashes.begin(), all[0].hashes.end()).size(), 2u);
        EXPECT_GE(all[0].proposals, 100);
        std::size_t changes = 0;
        for (std::size_t c = 1; c < all[0].hashes.size(); ++c) changes += all[0].hashes[c] != all[0].hashes[c - 1];
        EXPECT_GE(changes + 1, static_cast<std::size_t>(all[0].proposals) - 1);
    }
}

TEST(plan_changes, bits_stay_where_they_are_reproducible) {
    options o;
    o.reproducible = true;
    const std::vector<outcome> all = run_all(500, true, o);
    for (const outcome& each : all) EXPECT_EQ(each.hashes, std::vector(500, all[0].hashes[0]));
    EXPECT_GT(all[0].proposals, 5);
}

// Rank 0 proposes a plan and ends at once, so it answers no other rank. The plan does not change.
TEST(plan_changes, ranks_make_their_last_calls_where_rank_0_has_ended) {
    const std::vector<plan> plans = two_plans();
    options o;
    o.timeout = std::chrono::seconds(20);
    loopback::run(
        plans[0],
        [&](communicator& comm) {
            plan_changes& changes = core_of(comm).control().plan_change;
            if (comm.rank() == 0) {
                changes.propose(data_of(plans[1]).text);
                changes.end(true);
            }
            std::vector<float> data(500, 1);
            for (int call = 0; call < 5; ++call) comm.allreduce(std::span(data));
            EXPECT_EQ(data[499], std::pow(8.0f, 5.0f));
            EXPECT_EQ(changes.changed_at(), 0u);
        },
        o);
}

// The first plan decides how blocks of alltoallv travel, also after a change.
TEST(plan_changes, blocks_of_lengths_of_their_own_stay_whole) {
    const plan first = plan_of(four_nodes(), {{{0, 1}, 8, mode::scatter, "direct"}});
    const plan second = plan_of(four_nodes(), {{{0}, 2, mode::scatter, "direct"}, {{1}, 4, mode::scatter, "direct"}});
    loopback::run(first, [&](communicator& comm) {
        plan_changes& changes = core_of(comm).control().plan_change;
        const int rank = comm.rank(), ranks = comm.size();
        for (int call = 0; call < 40; ++call) {
            if (rank == 0 && call == 10) changes.propose(data_of(second).text);
            std::vector<std::int64_t> counts, got(at(ranks));
            std::vector<int> send, recv(at(100 * ranks)), expected;
            for (int r = 0; r < ranks; ++r) {
                counts.push_back((7 * rank + 3 * r + call) % 100);
                send.insert(send.end(), at(static_cast<int>(counts.back())), 100 * rank + r);
                expected.insert(expected.end(), at((7 * r + 3 * rank + call) % 100), 100 * r + rank);
            }
            comm.alltoallv(send, counts, recv, got, 100);
            recv.resize(expected.size());
            EXPECT_EQ(recv, expected) << "call " << call;
        }
        EXPECT_GT(changes.changed_at(), 10u);
    });
}

// A plan for a slow link may use the link so little that no rank notices when it is fast again.
TEST(plan_changes, the_first_plan_runs_for_a_moment_while_a_link_is_slow) {
    const plan first = two_plans()[0];
    std::vector<changed_plan> done;
    std::set<std::uint64_t> changes;  // first calls of each plan
    loopback::run(first, [&](communicator& comm) {
        options o;
        plan_changes& change = core_of(comm).control().plan_change;
        plan_follower follower(change, data_of(first), o, 1);
        const link_rows rows(data_of(first).machine);
        statistics so_far;
        so_far.calls.push_back({.call = "allreduce"});
        const slow_links::finding slow{{rows.link(1, 1, false)}, 0.5, 1, 0, true};
        if (comm.rank() == 0) follower.note(slow, "is slow");
        std::vector<float> data(5000);
        for (float goes_on = 1; goes_on > 0;) {
            comm.allreduce(std::span(data));
            if (comm.rank() == 0) {
                follower.look(rows, so_far, false);
                changes.insert(change.changed_at());
                if (changes.size() == 4) follower.note({slow.links, 1, 1, 0, false}, "is back");
                goes_on = follower.done().size() < 2 ? 1 : 0;
                done = follower.done();
            }
            comm.broadcast(std::span(&goes_on, 1), 0);
        }
    });
    ASSERT_EQ(done.size(), 2u);
    EXPECT_EQ(done[0].why, "is slow");
    EXPECT_EQ(done[1].why, "is back");
    EXPECT_GT(done[1].from_call, done[0].from_call);
    EXPECT_EQ(changes.size(), 5u);  // none, slow, trial, slow, back
}

}  // namespace terrace::detail::test::plan_changes_test
