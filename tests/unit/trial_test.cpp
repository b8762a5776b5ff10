// The trial of the drop-in: MPI and Terrace run some calls each, and the faster one runs the rest.

#include <gtest/gtest.h>

#include "pmpi/trial.hpp"

namespace terrace::detail::pmpi::test {

namespace {

constexpr std::int64_t small = 64, medium = 256 << 10, large = 1 << 20;

// Makes all calls of a trial with these times. All ranks have equal times.
void run(trial& t, double mpi, double terrace) {
    while (!t.settled()) {
        const runner by = t.next();
        t.add(by, by == runner::mpi ? mpi : terrace);
        if (t.may_settle()) t.settle(t.times());
    }
}

int calls_until(trial& t, runner by) {
    int calls = 0;
    for (; t.next() != by; ++calls) t.add(t.next(), 1);
    return calls;
}

}  // namespace

TEST(trial, mpi_runs_the_first_calls) {
    trial t(small);
    EXPECT_EQ(t.next(), runner::mpi);
    EXPECT_GT(calls_until(t, runner::terrace), 1);
    EXPECT_FALSE(t.may_settle());
}

TEST(trial, the_faster_one_runs_the_rest) {
    trial won(small), lost(small);
    run(won, 2, 1);
    run(lost, 1, 2);
    EXPECT_EQ(won.chosen(), runner::terrace);
    EXPECT_EQ(won.next(), runner::terrace);
    EXPECT_EQ(lost.chosen(), runner::mpi);
    EXPECT_EQ(lost.next(), runner::mpi);
}

TEST(trial, of_nearly_equal_times_mpi_runs_the_rest) {
    for (const std::int64_t bytes : {small, medium, large})
        for (const double terrace : {1.0, 0.98}) {
            trial t(bytes);
            run(t, 1, terrace);
            EXPECT_EQ(t.chosen(), runner::mpi) << bytes << ", " << terrace;
        }
}

// Times of few calls vary more.
TEST(trial, the_fewer_calls_the_more_must_be_won) {
    const auto chosen = [](std::int64_t bytes, double terrace) {
        trial t(bytes);
        run(t, 1, terrace);
        return t.chosen();
    };
    EXPECT_EQ(chosen(small, 0.96), runner::terrace);
    EXPECT_EQ(chosen(medium, 0.96), runner::mpi);
    EXPECT_EQ(chosen(medium, 0.94), runner::terrace);
    EXPECT_EQ(chosen(large, 0.94), runner::mpi);
    EXPECT_EQ(chosen(large, 0.89), runner::terrace);
}

TEST(trial, first_calls_set_up_and_do_not_count) {
    trial t(small);
    const int each = calls_until(t, runner::terrace);
    for (t.add(runner::terrace, 100); !t.may_settle();) t.add(runner::terrace, 2);
    EXPECT_EQ(t.times().terrace, 2);
    EXPECT_EQ(t.times().mpi, 1);
    EXPECT_EQ(t.calls(), 2 * each);
    EXPECT_EQ(t.spent(), each + 100 + 2 * (each - 1));
}

TEST(trial, one_of_large_calls_is_tried_once) {
    trial t(large);
    t.add(runner::mpi, 1);
    EXPECT_EQ(t.next(), runner::terrace);
    t.add(runner::terrace, 0.5);
    ASSERT_TRUE(t.may_settle());
    t.settle(t.times());
    EXPECT_TRUE(t.settled());
    EXPECT_EQ(t.chosen(), runner::terrace);
    EXPECT_EQ(t.calls(), 2);
}

TEST(trial, terrace_has_a_second_large_call_if_it_loses_the_first) {
    trial t(large);
    t.add(runner::mpi, 1);
    t.add(runner::terrace, 3);
    t.settle(t.times());
    EXPECT_FALSE(t.settled());
    EXPECT_EQ(t.next(), runner::terrace);
    t.add(runner::terrace, 0.5);
    t.settle(t.times());
    EXPECT_TRUE(t.settled());
    EXPECT_EQ(t.chosen(), runner::terrace);
    EXPECT_EQ(t.calls(), 3);
}

TEST(trial, the_slowest_rank_decides) {
    trial t(large);
    t.add(runner::mpi, 1);
    t.add(runner::terrace, 0.5);
    t.settle({.mpi = 1, .terrace = 2});
    t.add(runner::terrace, 0.5);
    t.settle({.mpi = 1, .terrace = 2});
    EXPECT_EQ(t.chosen(), runner::mpi);
    EXPECT_EQ(t.agreed().terrace, 2);
}

TEST(trial, where_terrace_cannot_run_it_ends) {
    trial t(small);
    t.give_up();
    EXPECT_TRUE(t.settled());
    EXPECT_EQ(t.next(), runner::mpi);
}

}  // namespace terrace::detail::pmpi::test
