// Calls from any thread: their order, and the threads that move them along.

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "support/any_thread.hpp"
#include "support/bad_calls.hpp"
#include "support/dice.hpp"
#include "support/plans.hpp"

namespace terrace::detail::test::threads_test {

// Ranks make the groups in different orders, with and without a progress thread.
TEST(threads, groups_begin_in_the_order_of_their_numbers) {
    for (const bool progress_thread : {false, true})
        loopback::run(
            plan_for(3),
            [](communicator& comm) {
                constexpr int threads = 4, each = 25;
                std::atomic<std::int64_t> wrong{0};
                const std::string thrown = in_threads(threads, [&](int t) {
                    dice random(static_cast<std::uint64_t>(comm.rank() * threads + t));
                    std::vector<int> mine;
                    for (int i = 0; i < each; ++i) mine.push_back(i * threads + t);
                    for (std::size_t i = mine.size() - 1; i > 0; --i) std::swap(mine[i], mine[random.below(i + 1)]);
                    std::vector<std::vector<int>> data;
                    std::vector<request> requests;
                    for (const int number : mine) {
                        data.emplace_back(static_cast<std::size_t>(1 + number * 131 % 3000), number);
                        comm.group_start(static_cast<std::uint64_t>(number));
                        requests.push_back(comm.allreduce_async(data.back()));
                        comm.group_end();
                        if (random.below(3) == 0) std::this_thread::yield();
                    }
                    for (std::size_t i = 0; i < mine.size(); ++i) {
                        requests[i].wait();
                        wrong += wrong_in(data[i], comm.size() * mine[i]);
                    }
                });
                EXPECT_EQ(thrown, "");
                EXPECT_EQ(wrong, 0);
            },
            from_any_thread(progress_thread));
}

// Without numbers, calls begin in the order of arrival. The test makes this order equal on all ranks.
TEST(threads, calls_are_ordered_by_arrival) {
    for (const bool progress_thread : {false, true})
        loopback::run(
            plan_for(3),
            [](communicator& comm) {
                constexpr int threads = 3, calls = 60;
                std::atomic<int> next{0};
                std::atomic<std::int64_t> wrong{0};
                const std::string thrown = in_threads(threads, [&](int t) {
                    for (int call = t; call < calls; call += threads) {
                        std::vector<int> data(1000, call);
                        while (next != call) std::this_thread::yield();
                        request r = comm.allreduce_async(data);
                        ++next;
                        if (call % 2 == 0) r.wait();
                        else
                            while (!r.test()) std::this_thread::yield();
                        wrong += wrong_in(data, comm.size() * call);
                    }
                });
                EXPECT_EQ(thrown, "");
                EXPECT_EQ(wrong, 0);
            },
            from_any_thread(progress_thread));
}

// The threads would deadlock if a waiting thread kept the others out.
TEST(threads, several_wait_for_messages_at_once) {
    loopback::run(
        plan_for(3),
        [](communicator& comm) {
            const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
            std::atomic<std::int64_t> wrong{0};
            const std::string thrown = in_threads(4, [&](int t) {
                for (const int count : {1, 1000, 20'000})
                    for (int turn = 0; turn < 5; ++turn) {
                        std::vector<int> out(static_cast<std::size_t>(count), 10 * turn + t), in(out.size());
                        request sent = comm.send_async(std::as_const(out), next, t);
                        comm.recv(in, previous, t);
                        sent.wait();
                        wrong += in != out;
                    }
            });
            EXPECT_EQ(thrown, "");
            EXPECT_EQ(wrong, 0);
        },
        from_any_thread());
}

// Two threads of one rank exchange messages. Each must wake the other when that one's message has arrived.
TEST(threads, one_wakes_another) {
    loopback::run(
        plan_for(1),
        [](communicator& comm) {
            const std::string thrown = in_threads(2, [&](int t) {
                std::vector<int> ball(1);
                for (int turn = 0; turn < 200; ++turn) {
                    if (t == 0) comm.send(ball, 0, 0);
                    EXPECT_EQ(comm.recv(ball, 0, t == 0 ? 1 : 0).count, 1);
                    if (t == 1) comm.send(ball, 0, 1);
                }
            });
            EXPECT_EQ(thrown, "");
        },
        from_any_thread());
}

TEST(threads, a_group_is_its_threads_own) {
    loopback::run(
        plan_for(2),
        [](communicator& comm) {
            std::vector<int> grouped(10, 1), alone(10, 1);
            comm.group_start();
            request r = comm.allreduce_async(grouped);
            EXPECT_NE(what_is_thrown([&] { comm.group_end(); }).find("there is no group"), std::string::npos);
            EXPECT_EQ(what_is_thrown([&] { comm.allreduce(alone); }), "");
            EXPECT_EQ(wrong_in(alone, 2), 0);
            comm.group_end();
            r.wait();
            EXPECT_EQ(wrong_in(grouped, 2), 0);
        },
        from_any_thread());
}

TEST(threads, numbers_are_used_once) {
    loopback::run(plan_for(2), [](communicator& comm) {
        comm.group_start(0);
        EXPECT_NE(what_is_thrown([&] { comm.group_start(1); }).find("a group is open already"), std::string::npos);
        comm.group_end();
        EXPECT_NE(what_is_thrown([&] { comm.group_start(0); }).find("has been a group 0 already"), std::string::npos);
        comm.group_start(2);
        std::vector<int> data(3, 1);
        request later = comm.allreduce_async(data);
        comm.group_end();
        EXPECT_FALSE(later.test());
        comm.group_start(1);
        comm.group_end();
        later.wait();
        EXPECT_EQ(wrong_in(data, 2), 0);
    });
}

// The wrong call is not compared, since its group may not have its turn yet. The other calls of the group begin.
TEST(threads, a_call_that_is_wrong_is_refused_alone_in_a_group_with_a_number) {
    loopback::run(plan_for(2), [](communicator& comm) {
        std::vector<int> data(3, 1);
        comm.group_start(0);
        EXPECT_NE(what_is_thrown([&] { comm.broadcast_async(data, 7).wait(); }).find("root"), std::string::npos);
        request r = comm.allreduce_async(data);
        comm.group_end();
        r.wait();
        EXPECT_EQ(wrong_in(data, 2), 0);
    });
}

TEST(threads, a_group_that_never_comes_is_named) {
    options o = from_any_thread();
    o.timeout = std::chrono::milliseconds(100);
    loopback::run(
        plan_for(2),
        [](communicator& comm) {
            std::vector<int> data(3, 1);
            comm.group_start(3);
            request r = comm.allreduce_async(data);
            comm.group_end();
            EXPECT_EQ(what_is_thrown([&] { r.wait(); }),
                      "timed out after 0.1 s (options::timeout): group 3: this rank has not ended group 0");
        },
        o);
}

}  // namespace terrace::detail::test::threads_test
