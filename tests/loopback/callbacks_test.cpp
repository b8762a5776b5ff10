// Functions that are called when a call is complete.

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "support/any_thread.hpp"
#include "support/bad_calls.hpp"

namespace terrace::detail::test::callbacks_test {

namespace {

std::string text_of(const std::exception_ptr& error) {
    return error ? what_is_thrown([&] { std::rethrow_exception(error); }) : "";
}

}  // namespace

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

// Only the communicator's own thread moves the calls along.
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

}  // namespace terrace::detail::test::callbacks_test
