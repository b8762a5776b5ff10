// Buffers of calls: any contiguous range of elements, bytes if data are only moved, and blocks of the caller's counts
// in nonblocking calls.

#include <array>
#include <deque>
#include <list>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/loopback.hpp>

#include "support/bad_calls.hpp"

namespace terrace::detail::test::buffers_test {

namespace {

template <class S, class R>
concept allreduces = requires(communicator& c, S&& send, R&& recv) {
    c.allreduce(std::forward<S>(send), std::forward<R>(recv));
};
template <class R>
concept allreduces_in_place = requires(communicator& c, R&& data) {
    c.allreduce(std::forward<R>(data));
};
template <class R>
concept broadcasts = requires(communicator& c, R&& data) {
    c.broadcast(std::forward<R>(data), 0);
};

using floats = std::vector<float>;

// Accepted.
static_assert(allreduces_in_place<floats&> && allreduces_in_place<std::array<int, 3>&>);
static_assert(allreduces_in_place<double (&)[4]> && allreduces_in_place<std::span<float>> &&
              allreduces_in_place<std::span<float, 3>> && allreduces_in_place<window<float>&>);
static_assert(allreduces<const floats&, floats&> && allreduces<std::span<float>, std::span<float>> &&
              allreduces<std::span<const float>, floats&>);
static_assert(broadcasts<std::string&> && broadcasts<std::vector<std::byte>&> && broadcasts<unsigned char (&)[3]> &&
              broadcasts<window<std::byte>&>);
// Refused: constant ranges, temporaries, ranges that are not contiguous, types without a sum, and unequal types.
static_assert(!allreduces_in_place<const floats&> && !allreduces_in_place<std::span<const float>>);
static_assert(!allreduces_in_place<floats> && !allreduces_in_place<window<float>>);
static_assert(!allreduces_in_place<std::deque<float>&> && !allreduces_in_place<std::list<float>&>);
static_assert(!allreduces_in_place<std::string&> && !allreduces_in_place<std::vector<std::byte>&>);
static_assert(!allreduces<floats&, std::vector<double>&> && !allreduces<floats&, const floats&>);
static_assert(!broadcasts<std::vector<std::string>&> && !broadcasts<std::vector<wchar_t>&>);

// Returns counts 1, 2, 3 ... by rank, and 0 for the last rank.
std::vector<std::int64_t> counts_for(int ranks) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks));
    std::iota(counts.begin(), counts.end(), 1);
    counts.back() = 0;
    return counts;
}

}  // namespace

TEST(buffers, are_any_contiguous_range) {
    loopback::run(plan_for(3), [](communicator& comm) {
        floats vector(4, 1);
        comm.allreduce(vector);
        EXPECT_EQ(vector, floats(4, 3));
        std::array<int, 2> array{comm.rank(), 1};
        comm.allreduce(array, reduce_op::max);
        EXPECT_EQ(array, (std::array{2, 1}));
        double plain[] = {1, 2, 3}, result[3] = {};
        comm.allreduce(plain, result);
        EXPECT_EQ(result[2], 9);
        const floats fixed(4, 2);
        comm.allreduce(fixed, std::span(vector));
        EXPECT_EQ(vector, floats(4, 6));
        comm.allreduce(std::span(vector), std::span(vector));
        EXPECT_EQ(vector, floats(4, 18));
        window<float> memory = comm.allocate<float>(4);
        comm.allreduce_async(fixed, memory).wait();
        EXPECT_EQ(memory[3], 6);
        floats root(comm.rank() == 1 ? 4 : 0);
        comm.reduce(fixed, root, 1);
        EXPECT_EQ(root, comm.rank() == 1 ? floats(4, 6) : floats());
    });
}

TEST(buffers, are_bytes_where_data_are_moved) {
    loopback::run(plan_for(3), [](communicator& comm) {
        std::string text = comm.rank() == 1 ? "all ranks" : std::string(9, ' ');
        comm.broadcast(text, 1);
        EXPECT_EQ(text, "all ranks");
        comm.broadcast_async(text, 0).wait();

        const std::vector<std::byte> own(2, std::byte(comm.rank()));
        std::vector<std::byte> all(6);
        comm.allgather(own, all);
        EXPECT_EQ(all[4], std::byte(2));
        unsigned char letter[] = {static_cast<unsigned char>('a' + comm.rank())}, letters[3] = {};
        comm.allgather_async(letter, letters).wait();
        EXPECT_EQ(std::string(letters, letters + 3), "abc");
        const std::vector<std::int64_t> counts = counts_for(3);
        const std::string word(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]),
                               static_cast<char>('a' + comm.rank()));
        std::string words(3, ' ');
        comm.allgather(word, words, counts);
        EXPECT_EQ(words, "abb");
    });
}

TEST(blocks_of_counts, are_started_like_other_calls) {
    for (const int ranks : {1, 2, 3, 5})
        loopback::run(plan_for(ranks), [&](communicator& comm) {
            const auto me = static_cast<std::size_t>(comm.rank());
            std::vector<std::int64_t> counts = counts_for(ranks);
            const auto all = static_cast<std::size_t>(std::reduce(counts.begin(), counts.end()));
            const auto own = static_cast<std::size_t>(counts[me]);
            const std::vector<int> ones(all, 1);
            std::vector<int> sums(own), again(own), mine(own, comm.rank()), gathered(all), copy(all);
            std::vector<request> requests;
            requests.push_back(comm.reduce_scatter_async(ones, sums, counts));
            requests.push_back(comm.allgather_async(mine, gathered, counts));
            requests.push_back(
                comm.reduce_scatter_async(ones.data(), again.data(), counts, element_type::int32, reduce_op::max));
            requests.push_back(comm.allgather_async(mine.data(), copy.data(), counts, element_type::int32));
            std::fill(counts.begin(), counts.end(), -1);  // calls have copied the counts
            wait_all(requests);
            EXPECT_EQ(sums, std::vector<int>(own, ranks));
            EXPECT_EQ(again, std::vector<int>(own, 1));
            std::vector<int> expected;
            for (int r = 0; r + 1 < ranks; ++r) expected.insert(expected.end(), static_cast<std::size_t>(r) + 1, r);
            EXPECT_EQ(gathered, expected);
            EXPECT_EQ(copy, expected);
        });
}

TEST(blocks_of_counts, that_contradict_the_buffers_are_refused) {
    loopback::run(plan_for(3), [](communicator& comm) {
        const floats all(6);
        floats own(2);
        const auto refused = [](const auto& call, const std::string& why) {
            try {
                call();
                ADD_FAILURE() << why;
            } catch (const usage_error& e) {
                EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
            }
        };
        const std::vector<std::int64_t> two{3, 3}, negative{7, -1, 0}, other{3, 2, 2};
        refused([&] { comm.reduce_scatter_async(all, own, two).wait(); }, "there are 2 counts for 3 ranks");
        refused([&] { comm.reduce_scatter_async(all, own, negative).wait(); }, "count 1 is -1");
        refused([&] { comm.reduce_scatter_async(all, own, other).wait(); },
                "the counts require buffers of 7 elements in all and ");
        refused([&] { comm.reduce_scatter(all, std::span(own).first(1)); },
                "send has 6 elements and recv has 1; on 3 ranks send requires 3 times as many as recv");
        refused([&] { comm.allgather(all, own); },
                "recv has 2 elements and send has 6; on 3 ranks recv requires 3 times as many as send");
        refused([&] { comm.allreduce(all, own); }, "send has 6 elements and recv has 2");
    });
}

}  // namespace terrace::detail::test::buffers_test
