// alltoallv, gatherv and scatterv: invalid arguments, and blocks of extreme lengths. The conformance suite runs random
// cases on every transport.

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "plan/plan_access.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"
#include "support/uneven_blocks.hpp"

namespace terrace::detail::test::alltoallv_test {

namespace {

// Returns two plans: ranks exchange the lengths first, or send each block with its length.
std::vector<plan> both_ways() {
    const hierarchy machine = machine_of(tree::uniform(std::vector{2, 3}));
    return {plan_of(machine, {run_by({{0, 1}, 6, mode::scatter}, "direct")}, 2, 4096),
            plan_of(machine, {run_by({{0}, 2, mode::scatter}, "direct"), run_by({{1}, 3, mode::scatter}, "direct")})};
}

TEST(alltoallv, of_nothing_and_of_one_huge_block) {
    for (const plan& p : both_ways())
        loopback::run(p, [&](communicator& comm) {
            const auto ranks = static_cast<std::size_t>(comm.size());
            std::vector<std::int64_t> none(ranks, 0), got(ranks, 7);
            std::vector<int> nothing;
            comm.alltoallv(nothing, none, nothing, got, 0);
            EXPECT_EQ(got, none);

            constexpr std::int64_t huge = 300'000;
            std::vector<std::int64_t> counts = none, due = none;
            if (comm.rank() == 4) counts[1] = huge;
            if (comm.rank() == 1) due[4] = huge;
            const std::vector<int> send(comm.rank() == 4 ? huge : 0, 42);
            std::vector<int> recv(comm.rank() == 1 ? huge : 0);
            comm.alltoallv(send, counts, recv, got, huge);
            EXPECT_EQ(got, due);
            EXPECT_EQ(recv, std::vector<int>(recv.size(), 42));
        });
}

// Rank 0 gets much more than the others from rank 1, and often less from the other ranks.
TEST(alltoallv, keeps_a_program_for_lengths_of_all_kinds) {
    std::mutex guard;
    std::vector<std::string> made;
    options o;
    o.log = [&](log_level, std::string_view text) {
        const std::lock_guard lock(guard);
        if (text.starts_with("alltoallv of ") && text.find("float32") != text.npos) made.emplace_back(text);
    };
    loopback::run(
        both_ways().front(),
        [&](communicator& comm) {
            const auto ranks = static_cast<std::size_t>(comm.size());
            for (const std::int64_t others : {900, 3000, 40, 0, 2900}) {
                std::vector<std::int64_t> counts(ranks, others), got(ranks);
                counts[0] = comm.rank() == 1 ? 3000 : 10;
                std::vector<float> send, recv(3000 * ranks);
                for (std::size_t to = 0; to < ranks; ++to)
                    send.insert(send.end(), static_cast<std::size_t>(counts[to]), static_cast<float>(to));
                comm.alltoallv(send, counts, recv, got, 3000);
                std::int64_t all = 0;
                for (const std::int64_t count : got) all += count;
                EXPECT_EQ(got[1], comm.rank() == 0 ? 3000 : others);
                EXPECT_TRUE(std::all_of(recv.begin(), recv.begin() + all,
                                        [&](float x) { return x == static_cast<float>(comm.rank()); }));
            }
        },
        o);
    // Every rank creates two programs: one with chunks, and one with whole blocks, for calls of mostly short blocks.
    ASSERT_EQ(made.size(), 2 * 6u);
    EXPECT_EQ(std::ranges::count_if(made, [](const std::string& s) { return s.find(" 1 chunks") != s.npos; }), 6);
}

// The longest block decides: 900, 1000 and 600 elements share a program with chunks, and 40 elements have one with one
// chunk. Blocks that are much shorter than the longest have one with one chunk, too.
TEST(scatterv, keeps_a_program_for_each_power_of_two) {
    std::mutex guard;
    std::vector<std::string> made;
    options o;
    o.log = [&](log_level, std::string_view text) {
        const std::lock_guard lock(guard);
        if (text.starts_with("scatterv of ") && text.find("float32") != text.npos) made.emplace_back(text);
    };
    loopback::run(
        both_ways().front(),
        [&](communicator& comm) {
            const int root = 4, me = comm.rank();
            const auto ranks = static_cast<std::size_t>(comm.size());
            for (const std::int64_t most : {900, 1000, 600, 40, 5000}) {
                std::vector<std::int64_t> counts(ranks, most == 5000 ? 3 : most / 2);
                counts[0] = 0;
                counts[1] = most;
                std::vector<float> send, recv(5000, -1);
                for (std::size_t to = 0; me == root && to < ranks; ++to)
                    for (std::int64_t i = 0; i < counts[to]; ++i)
                        send.push_back(static_cast<float>(10'000 * static_cast<std::int64_t>(to) + i));
                const std::int64_t count = comm.scatterv(std::span(std::as_const(send)),
                                                         std::span(std::as_const(counts)), std::span(recv), root);
                EXPECT_EQ(count, counts[static_cast<std::size_t>(me)]);
                for (std::int64_t i = 0; i < 5000; ++i)
                    EXPECT_EQ(recv[static_cast<std::size_t>(i)],
                              i < count ? static_cast<float>(10'000 * me + i) : -1.0f);
            }
        },
        o);
    EXPECT_EQ(made.size(), 3 * 6u);
    EXPECT_EQ(std::ranges::count_if(made, [](const std::string& s) { return s.find(" 1 chunks") != s.npos; }), 2 * 6);
}

TEST(alltoallv, of_one_rank) {
    const plan p = plan_of(machine_of(tree::uniform(std::vector{1})), {run_by({{0}, 1, mode::scatter}, "direct")});
    loopback::run(p, [&](communicator& comm) {
        for (const collective what : {collective::alltoall, collective::gather, collective::scatter}) {
            uneven_case c;
            c.salt = 3;
            c.most = 50;
            c.what = what;
            EXPECT_EQ(wrong_in(comm, c), 0);
        }
    });
}

TEST(alltoallv, too_little_room_is_the_error_of_one_rank) {
    for (const plan& p : both_ways()) {
        std::atomic<int> refused{0};
        loopback::run(p, [&](communicator& comm) {
            const auto ranks = static_cast<std::size_t>(comm.size());
            std::vector<std::int64_t> counts(ranks, 1), got(ranks);
            const std::vector<int> send(ranks, comm.rank());
            std::vector<int> recv(comm.rank() == 2 ? 5 : 6, -1);
            try {
                comm.alltoallv(send, counts, recv, got, 1);
                EXPECT_EQ(recv, (std::vector{0, 1, 2, 3, 4, 5}));
            } catch (const usage_error& e) {
                ++refused;
                EXPECT_STREQ(
                    e.what(),
                    "alltoallv: 6 elements have come for recv, which holds 5; other ranks have what is theirs");
                EXPECT_EQ(recv, std::vector<int>(5, -1));
            }
            EXPECT_EQ(got, counts);
            comm.barrier();
        });
        EXPECT_EQ(refused, 1);
    }
}

// Returns the message of each rank's usage_error.
std::vector<std::string> messages(const std::function<void(communicator&)>& call) {
    std::vector<std::string> all(6);
    loopback::run(both_ways().front(), [&](communicator& comm) {
        try {
            call(comm);
        } catch (const usage_error& e) {
            all[static_cast<std::size_t>(comm.rank())] = e.what();
        }
    });
    return all;
}

TEST(alltoallv, refuses_what_is_wrong_in_itself) {
    const auto with = [](const std::vector<std::int64_t>& counts, std::int64_t most) {
        return messages([=](communicator& comm) {
            std::vector<std::int64_t> got(6);
            std::vector<int> send(20), recv(20);
            comm.alltoallv(send.data(), counts, recv.data(), 20, got, most, element_type::int32);
        });
    };
    for (const std::string& text : with({1, 2, 3}, 3))
        EXPECT_EQ(text, "alltoallv: there are 3 counts for 6 ranks; pass one for each rank");
    for (const std::string& text : with({1, 2, 3, 1, 1, 1}, 2))
        EXPECT_EQ(text, "alltoallv: count 2 is 3; each is 0 to 2, which is the longest block");
    for (const std::string& text : with({0, 0, 0, 0, 0, 0}, -1))
        EXPECT_EQ(text, "alltoallv: the longest block has -1 elements; it must not be negative");
}

TEST(alltoallv, to_and_from_a_root_refuses_what_is_wrong_in_itself) {
    std::vector<int> data(20);
    for (const std::string& text : messages([&](communicator& comm) {
             std::vector<std::int64_t> got(6);
             comm.gatherv(std::span(data).first(0), std::span(data).first(0), got, 6);
         }))
        EXPECT_EQ(text, "gatherv: root is 6, but ranks are 0 to 5");
    const std::vector<std::string> all = messages([&](communicator& comm) {
        const std::vector<std::int64_t> counts{1, -1, 0, 0, 0, 0};
        comm.scatterv(std::span(std::as_const(data)).first(0), counts, std::span(data).first(0), 2);
    });
    for (const std::string& text : all)
        EXPECT_NE(text.find("rank 2 has scatterv of blocks of 2 int64, from rank 2, refused: count 1 is -1"),
                  std::string::npos)
            << text;
}

TEST(alltoallv, refuses_buffers_that_overlap) {
    for (const std::string& text : messages([](communicator& comm) {
             std::vector<std::int64_t> counts(6, 1), got(6);
             std::vector<int> both(6);
             comm.alltoallv(both, counts, both, got, 1);
         }))
        EXPECT_NE(text.find("alltoallv does not work in place"), std::string::npos) << text;
}

}  // namespace

}  // namespace terrace::detail::test::alltoallv_test
