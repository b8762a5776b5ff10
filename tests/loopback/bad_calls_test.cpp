// Calls that differ between ranks or have invalid arguments: each is detected, and the error names the ranks.

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "control/call_order/call_check.hpp"
#include "support/bad_calls.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test::bad_calls_test {

namespace {

options checking(options::checking level) {
    options o;
    o.check = level;
    o.timeout = std::chrono::seconds(20);
    return o;
}

// Returns the error message of each rank; empty if it threw nothing.
std::vector<std::string> messages(int ranks, options::checking level, const std::function<void(communicator&)>& body) {
    std::vector<std::string> all(static_cast<std::size_t>(ranks));
    loopback::run(
        plan_for(ranks),
        [&](communicator& comm) {
            try {
                body(comm);
            } catch (const error& e) {
                all[static_cast<std::size_t>(comm.rank())] = e.what();
            }
        },
        checking(level));
    return all;
}

int detected(options::checking level, agreed_before before) {
    int found = 0;
    for (int ranks : {2, 3, 4, 8}) {
        const plan whole = plan_for(ranks);
        for (const bad_call& what : bad_calls(ranks)) {
            for (int culprit : {0, ranks - 1}) {
                std::mutex guard;
                std::string trouble;
                loopback::run(
                    whole,
                    [&](communicator& comm) {
                        const std::string own = trouble_with(comm, what, culprit, before, level);
                        const std::lock_guard lock(guard);
                        if (!own.empty()) trouble = fmt::format("rank {}: {}", comm.rank(), own);
                    },
                    checking(level));
                EXPECT_EQ(trouble, "") << what.kind << ", " << ranks << " ranks, culprit " << culprit;
                found += trouble.empty();
            }
        }
    }
    std::printf("%d differing calls found\n", found);
    return found;
}

}  // namespace

TEST(bad_calls, level_every_finds_all) {
    const auto every = options::checking::every;
    EXPECT_EQ(detected(every, agreed_before::nothing), 56);
    EXPECT_EQ(detected(every, agreed_before::what_most_call), 56);
    EXPECT_EQ(detected(every, agreed_before::all), 56);
}

TEST(bad_calls, level_first_finds_all_that_are_new_to_one_rank) {
    EXPECT_EQ(detected(options::checking::first, agreed_before::nothing), 56);
    EXPECT_EQ(detected(options::checking::first, agreed_before::what_most_call), 56);
}

// The calls' messages do not match, since messages carry the history of their rank's calls.
TEST(bad_calls, level_first_finds_all_that_all_ranks_have_agreed_on) {
    EXPECT_EQ(detected(options::checking::first, agreed_before::all), 56);
}

// Rank 2's third call is a broadcast from itself. It waits for no other rank there, and is ahead when the others ask.
TEST(bad_calls, level_first_names_the_call_at_which_ranks_came_apart) {
    const auto all = messages(4, options::checking::first, [](communicator& comm) {
        std::vector<float> data(100, 1.0f), few(8);
        comm.allreduce(std::span(data));
        comm.broadcast(std::span(few), 2);
        if (comm.rank() == 2) comm.broadcast(std::span(few), 2);
        else comm.allreduce(std::span(data));
        comm.allreduce(std::span(data));
    });
    for (const std::string& text : all)
        for (const char* part : {"ranks 0-1, 3 have allreduce of 100 float32, sum (call 3)",
                                 "rank 2 has broadcast of 8 float32, from rank 2 (call 3)"})
            EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// Calls of an agreed shape need no control messages. A rank that has waited for long sends some, which must not harm.
TEST(bad_calls, a_rank_that_comes_late_to_a_call_that_is_agreed_on_breaks_nothing) {
    const auto all = messages(3, options::checking::first, [](communicator& comm) {
        std::vector<float> data(100, 1.0f);
        for (int i = 0; i < 6; ++i) {
            if (comm.rank() == i % 3) std::this_thread::sleep_for(std::chrono::milliseconds(300));
            comm.allreduce(std::span(data), reduce_op::max);
        }
    });
    for (const std::string& text : all) EXPECT_EQ(text, "");
}

TEST(bad_calls, a_call_that_one_rank_refuses_fails_on_all) {
    for (const auto level : {options::checking::first, options::checking::every}) {
        for (bool agreed : {false, true}) {
            const auto all = messages(3, level, [&](communicator& comm) {
                std::vector<float> data(10);
                if (agreed) comm.allreduce(std::span(data));
                comm.allreduce(data.data(), data.data(), comm.rank() == 1 ? -10 : 10, element_type::float32,
                               reduce_op::sum);
            });
            for (const std::string& text : all)
                for (const char* part : {"ranks 0, 2 have allreduce of 10 ", "rank 1 has ", "refused: count is -10"})
                    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
        }
    }
}

TEST(bad_calls, a_call_that_all_ranks_refuse_breaks_nothing) {
    for (const auto level : {options::checking::off, options::checking::first, options::checking::every}) {
        const auto all = messages(3, level, [](communicator& comm) {
            std::vector<float> data(10, 1.0f);
            const auto refused = [&](const auto& call, const std::string& why) {
                try {
                    call();
                    FAIL() << why;
                } catch (const usage_error& e) {
                    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
                }
            };
            const std::vector<std::int64_t> two{1, 1}, negative{1, -1, 1};
            std::vector<float> nine(9), ten(10);
            const element_type type = element_type::float32;
            refused([&] { comm.broadcast(data.data(), 10, type, 3); }, "root is 3, but ranks are 0 to 2");
            refused([&] { comm.alltoall(data, nine); }, "send has 10 elements and recv has 9");
            refused([&] { comm.alltoall(data, ten); }, "not a block for each of 3 ranks");
            refused([&] { comm.alltoall(data.data(), nullptr, 3, type); }, "null");
            refused([&] { comm.broadcast(nullptr, 10, type, 0); }, "null");
            refused([&] { comm.allgather(data.data(), data.data(), two, type); }, "2 counts for 3 ranks");
            refused([&] { comm.allgather(data.data(), data.data(), negative, type); }, "count 1 is -1");
            bool truths[] = {true, false};
            refused([&] { comm.allreduce(truths); }, "sum is not defined for boolean, which has land, lor, lxor");
            refused([&] { comm.reduce(data.data(), data.data(), 0, type, 1, reduce_op::bxor); },
                    "reduce: bxor is not defined for float32, which has sum, prod, min, max, avg, premul_sum");
            comm.broadcast(truths, 1);
            comm.allreduce(truths, reduce_op::land);
            EXPECT_TRUE(truths[0] && !truths[1]);
            comm.allreduce(std::span(data));
            EXPECT_EQ(data[9], 3.0f);
        });
        EXPECT_EQ(all, std::vector<std::string>(3));
    }
}

TEST(bad_calls, a_rank_that_makes_no_call_is_waited_for_until_the_deadline) {
    options o = checking(options::checking::every);
    o.timeout = std::chrono::milliseconds(50);
    std::atomic<int> told{0};
    loopback::run(
        plan_for(2),
        [&](communicator& comm) {
            if (comm.rank() == 1) return;
            float x = 0;
            try {
                comm.allreduce(std::span(&x, 1));
            } catch (const timeout_error& e) {
                told += std::string(e.what()).find("rank 1 has not made this call") != std::string::npos;
            }
        },
        o);
    EXPECT_EQ(told, 1);
}

// While a rank waits for a comparison, it must move earlier calls along: peers may need them before their next call.
TEST(bad_calls, a_rank_that_waits_moves_its_other_calls_along) {
    loopback_world world(std::vector{2});
    std::atomic<bool> moved{false};
    const auto rank_main = [&](int rank) {
        endpoint net(world.join(rank), 1);
        control_router router(net);
        const std::vector<int> callers_rank{0, 1};
        options o;
        o.check = options::checking::every;
        call_check check(
            router, callers_rank, o, [&] { moved = true; }, [] {});
        while (rank == 1 && !moved) std::this_thread::yield();
        const call_shape call{.count = 1, .counts = {}};
        check.start_and_wait(call, signature_of(call));
    };
    std::jthread one(rank_main, 1);
    rank_main(0);
    EXPECT_TRUE(moved);
}

TEST(bad_calls, buffers_that_overlap_are_refused) {
    const auto all = messages(2, options::checking::first, [](communicator& comm) {
        std::vector<float> data(40);
        float* at = data.data();
        const element_type type = element_type::float32;
        const int me = comm.rank();
        const std::vector<std::int64_t> counts{4, 6};
        const auto refused = [&](const auto& call, const char* fix) {
            try {
                call();
                FAIL() << fix;
            } catch (const usage_error& e) {
                const std::string text = e.what();
                for (const std::string& part :
                     {std::string("overlap"), std::string(fix), fmt::format("{}", fmt::ptr(at))})
                    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
            }
        };
        refused([&] { comm.allreduce(at, at + 1, 10, type, reduce_op::sum); }, "same buffer");
        refused([&] { comm.allreduce(at + 9, at, 10, type, reduce_op::sum); }, "same buffer");
        refused([&] { comm.reduce_scatter(at, at + 5 * me + 1, 5, type, reduce_op::sum); }, "own block of send");
        refused([&] { comm.allgather(at + 5 * me + 1, at, 5, type); }, "own block of recv");
        refused([&] { comm.allgather(at + 4 * me + 1, at, counts, type); }, "own block of recv");
        refused([&] { comm.alltoall(at, at, 5, type); }, "alltoall does not work in place");
        refused([&] { comm.alltoall(at, at + 9, 5, type); }, "two buffers that do not overlap");
        // Allowed: adjacent buffers, in place, and an overlap with a buffer that is not written.
        comm.allreduce(at, at + 10, 10, type, reduce_op::sum);
        comm.allreduce(at, at, 10, type, reduce_op::sum);
        comm.reduce_scatter(at, at + 5 * me, 5, type, reduce_op::sum);
        comm.reduce_scatter(at, at + 10, 5, type, reduce_op::sum);
        comm.allgather(at + 5 * me, at, 5, type);
        comm.allgather(at + 4 * me, at, counts, type);
        comm.alltoall(at, at + 10, 5, type);
        comm.reduce(at, me == 0 ? at + 10 : at + 1, 10, type, 0, reduce_op::sum);
    });
    EXPECT_EQ(all, std::vector<std::string>(2));
}

}  // namespace terrace::detail::test::bad_calls_test
