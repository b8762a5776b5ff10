// A communicator stays broken after its first failure. A failure at creation reaches all ranks.

#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <terrace/error.hpp>
#include <terrace/mpi_world.hpp>

#include "calls/failure_state.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test::failure_state_test {

TEST(failure_state, latches_the_first_failure) {
    failure_state s;
    int cleanups = 0;
    s.at_failure = [&] { ++cleanups; };
    const auto fail = [&](const char* why) { s.latch([&] { throw timeout_error(why); }); };
    s.latch([] {});
    s.expect_none("allreduce");
    s.rethrow();
    EXPECT_FALSE(s.is_broken());
    EXPECT_EQ(cleanups, 0);

    EXPECT_THROW(fail("one"), timeout_error);
    EXPECT_THROW(fail("two"), timeout_error);
    EXPECT_TRUE(s.is_broken());
    EXPECT_EQ(cleanups, 2);
    try {
        s.rethrow();
        ADD_FAILURE();
    } catch (const timeout_error& e) {
        EXPECT_STREQ(e.what(), "one");
    }
    try {
        s.expect_none("allreduce");
        ADD_FAILURE();
    } catch (const usage_error& e) {
        EXPECT_STREQ(e.what(), "allreduce: an earlier call failed, and the communicator is broken; make a new one");
    }
}

TEST(failure_state, is_given_up_by_another_thread) {
    failure_state s;
    std::jthread(&failure_state::give_up, &s, "given up").join();
    EXPECT_TRUE(s.is_broken());
    try {
        s.expect_none("allreduce");
        ADD_FAILURE();
    } catch (const usage_error& e) {
        EXPECT_STREQ(e.what(), "allreduce: given up");
    }
    try {
        s.rethrow();
        ADD_FAILURE();
    } catch (const usage_error& e) {
        EXPECT_STREQ(e.what(), "given up");
    }
}

TEST(failure_state, all_ranks_throw_where_one_fails_at_creation) {
    loopback_world world(std::vector{3});
    const std::vector<int> callers_rank{5, 4, 3};
    std::vector<std::string> said(3);
    const auto rank_main = [&](int rank) {
        team all = world.join(rank).ranks;
        on_all_ranks(callers_rank, all, [] {});
        try {
            on_all_ranks(callers_rank, all, [&] {
                if (rank > 0) throw std::runtime_error("no room");
            });
        } catch (const usage_error& e) {
            said[static_cast<std::size_t>(rank)] = e.what();
        }
    };
    {
        std::jthread one(rank_main, 1), two(rank_main, 2);
        rank_main(0);
    }
    EXPECT_EQ(said, std::vector<std::string>(3, "rank 4: no room"));
}

TEST(failure_state, an_error_of_many_ranks_is_one_line_with_the_ranks) {
    EXPECT_EQ(error_lines("terrace", {{0, "no plan"}}, 1), "terrace: no plan\n");
    EXPECT_EQ(error_lines("terrace", {{3, "no"}, {0, "no"}, {1, "no"}, {2, "no"}}, 4), "terrace: ranks 0-3: no\n");
    EXPECT_EQ(error_lines("terrace-bench", {{1, "no file"}, {0, "rank 1 has none"}, {2, "rank 1 has none"}}, 4),
              "terrace-bench: ranks 0, 2: rank 1 has none\nterrace-bench: rank 1: no file\n");
}

}  // namespace terrace::detail::test::failure_state_test
