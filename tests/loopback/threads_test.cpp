// Calls from any thread: their order, who moves them along, and callbacks.

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "support/bad_calls.hpp"
#include "support/dice.hpp"
#include "support/plans.hpp"

namespace terrace::detail::test::threads_test {

namespace {

options from_any_thread(bool progress_thread = false) {
    options o;
    o.threads = options::threading::any;
    o.progress_thread = progress_thread;
    return o;
}

// Runs `body(t)` in several threads, and returns what the first of them threw.
std::string in_threads(int threads, const std::function<void(int)>& body) {
    std::mutex guard;
    std::string thrown;
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
            try {
                body(t);
            } catch (const std::exception& e) {
                const std::lock_guard lock(guard);
                if (thrown.empty()) thrown = e.what();
            }
        });
    all.clear();
    return thrown;
}

std::string what_is_thrown(const std::function<void()>& action) {
    return in_threads(1, [&](int) { action(); });
}

std::string text_of(const std::exception_ptr& error) {
    return error ? what_is_thrown([&] { std::rethrow_exception(error); }) : "";
}

template <class T>
std::int64_t wrong_in(const std::vector<T>& data, T expected) {
    return std::ssize(data) - std::count(data.begin(), data.end(), expected);
}

}  // namespace

// In an order that differs between ranks, with and without another thread that moves calls along.
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

// Calls that block, in the order of arrival, which the program sees to.
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

// Each of them would wait for ever if one that waits kept the others out.
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

// Two threads of one rank: neither moves calls along when it is the other's turn.
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

// It is not its turn, so that it takes no part in a comparison. What else is in the group begins.
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

// ---- callbacks

TEST(callbacks, are_called_once_by_whoever_moves_calls_along) {
    for (const options& o : {options{}, from_any_thread(), from_any_thread(true)})
        loopback::run(
            plan_for(3),
            [](communicator& comm) {
                constexpr int calls = 30;
                std::vector<std::vector<int>> data;
                std::array<std::atomic<int>, calls> called{};
                std::atomic<int> left{calls}, errors{0};
                for (int c = 0; c < calls; ++c) data.emplace_back(static_cast<std::size_t>(1 + 100 * c), c);
                for (int c = 0; c < calls; ++c)
                    comm.allreduce_async(data[static_cast<std::size_t>(c)]).then([&, c](const std::exception_ptr& e) {
                        ++called[static_cast<std::size_t>(c)];
                        errors += e != nullptr;
                        --left;
                    });
                std::vector<int> message(1);
                request moves_along = comm.recv_async(message, comm.rank());
                while (left > 0) EXPECT_FALSE(moves_along.test());
                comm.send(message, comm.rank());
                moves_along.wait();
                EXPECT_EQ(errors, 0);
                for (int c = 0; c < calls; ++c) {
                    EXPECT_EQ(called[static_cast<std::size_t>(c)], 1);
                    EXPECT_EQ(wrong_in(data[static_cast<std::size_t>(c)], comm.size() * c), 0);
                }
            },
            o);
}

// Nobody else moves calls along.
TEST(callbacks, may_start_calls) {
    loopback::run(
        plan_for(2),
        [](communicator& comm) {
            std::vector<int> data(1000, 1);
            std::atomic<int> left{20};
            std::function<void(std::exception_ptr)> again = [&](const std::exception_ptr& e) {
                EXPECT_EQ(text_of(e), "");
                if (--left > 0) comm.allreduce_async(data).then(again);
            };
            comm.allreduce_async(data).then(again);
            while (left > 0) std::this_thread::yield();
            EXPECT_EQ(wrong_in(data, 1 << 20), 0);
        },
        from_any_thread());
}

TEST(callbacks, are_told_errors) {
    options o = from_any_thread();
    o.timeout = std::chrono::milliseconds(100);
    o.check = options::checking::off;
    std::atomic<int> told{0};
    loopback::run(
        plan_for(2),
        [&](communicator& comm) {
            std::vector<int> data(3, 1), message(1);
            if (comm.rank() == 0) {
                comm.allreduce_async(data).then(
                    [&](const std::exception_ptr& e) { told += text_of(e).find("timed out") != std::string::npos; });
                while (told == 0) std::this_thread::yield();
                EXPECT_NE(what_is_thrown([&] { comm.allreduce(data); }).find("communicator is broken"),
                          std::string::npos);
            }
            while (told == 0) std::this_thread::yield();
        },
        o);
    EXPECT_EQ(told, 1);
}

TEST(callbacks, of_a_message_that_does_not_fit_get_its_own_error) {
    loopback::run(plan_for(1), [](communicator& comm) {
        std::vector<int> longer(2), shorter(1);
        comm.send(longer, 0);
        std::string told;
        comm.recv_async(shorter, 0).then([&](const std::exception_ptr& e) { told = text_of(e); });
        comm.barrier();
        EXPECT_NE(told.find("the message is lost"), std::string::npos) << told;
    });
}

TEST(callbacks, of_complete_calls_are_called_at_once) {
    int called = 0;
    const auto count = [&](const std::exception_ptr& e) { called += e == nullptr; };
    request().then(count);
    loopback::run(plan_for(1), [&](communicator& comm) {
        std::vector<int> data(3, 1);
        comm.allreduce_async(data).then(count);
        comm.recv_async(data, 0).then(count);
        EXPECT_EQ(called, 2);
        comm.send(data, 0);
        comm.barrier();
        EXPECT_EQ(called, 3);
        comm.recv_async(data, 0).then([&](const std::exception_ptr& e) {
            called += text_of(e).find("communicator was destroyed") != std::string::npos;
        });
    });
    EXPECT_EQ(called, 4);
}

TEST(callbacks, that_throw_are_logged) {
    std::string line;
    options o;
    o.log = [&](log_level level, std::string_view text) {
        if (level == log_level::warn) line = text;
    };
    loopback::run(
        plan_for(1),
        [](communicator& comm) {
            std::vector<int> data(3, 1);
            comm.allreduce_async(data).then([](const std::exception_ptr&) { throw std::runtime_error("mine"); });
        },
        o);
    EXPECT_NE(line.find("mine"), std::string::npos);
}

}  // namespace terrace::detail::test::threads_test
