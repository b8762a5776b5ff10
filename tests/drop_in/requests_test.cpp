// Nonblocking calls: they have real MPI requests, and progress while a rank waits for something else.

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "drop_in/ranks.hpp"

namespace drop_in {

namespace {

constexpr int n = 20'000;

// Creates the drop-in's communicator by a blocking call, since a nonblocking call cannot create it.
void make_ready() {
    int one = 1;
    MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

}  // namespace

TEST(requests, are_waited_for_in_every_way) {
    make_ready();
    const int rank = rank_in(), ranks = size_of();
    constexpr int calls = 8;
    std::vector<std::vector<int>> data(calls, std::vector<int>(n, rank));
    std::vector<MPI_Request> all(calls, MPI_REQUEST_NULL);
    for (int way = 0; way < 4; ++way) {
        for (int c = 0; c < calls; ++c) {
            std::fill(data[c].begin(), data[c].end(), rank + c);
            MPI_Iallreduce(MPI_IN_PLACE, data[c].data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all[c]);
        }
        if (way == 0)
            for (MPI_Request& r : all) MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (way == 1) MPI_Waitall(calls, all.data(), MPI_STATUSES_IGNORE);
        if (way == 2)
            for (int done = 0; done == 0;) MPI_Testall(calls, all.data(), &done, MPI_STATUSES_IGNORE);
        if (way == 3)
            for (int left = calls; left > 0;) {
                int some = 0, which[calls];
                MPI_Testsome(calls, all.data(), &some, which, MPI_STATUSES_IGNORE);
                left -= some;
            }
        for (int c = 0; c < calls; ++c) {
            EXPECT_EQ(all[c], MPI_REQUEST_NULL);
            EXPECT_EQ(std::count(data[c].begin(), data[c].end(), ranks * (ranks - 1) / 2 + ranks * c), n) << way;
        }
    }
}

// Each rank but rank 0 waits in MPI_Recv for a message that rank 0 sends when its call is complete.
TEST(requests, move_along_in_mpi_recv) {
    make_ready();
    const int rank = rank_in(), ranks = size_of();
    if (ranks < 2) GTEST_SKIP();
    std::vector<double> data(200'000, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, data.data(), 200'000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    int token = 1;
    if (rank != 0) MPI_Recv(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 1; rank == 0 && r < ranks; ++r) MPI_Send(&token, 1, MPI_INT, r, 5, MPI_COMM_WORLD);
    EXPECT_EQ(std::count(data.begin(), data.end(), static_cast<double>(ranks)), 200'000);
}

TEST(requests, of_all_kinds) {
    make_ready();
    const int rank = rank_in(), ranks = size_of();
    const auto all = static_cast<std::size_t>(n) * static_cast<std::size_t>(ranks);
    const std::vector<int> mine = elements<int>(rank, n), many = elements<int>(rank, all);
    std::vector<int> reduced(n), sent = rank == 0 ? mine : std::vector<int>(n), gathered(all), exchanged(all), block(n),
                                 to_root(all), from_root(n);
    std::vector<MPI_Request> r(8, MPI_REQUEST_NULL);
    MPI_Ireduce(mine.data(), reduced.data(), n, MPI_INT, MPI_BXOR, 0, MPI_COMM_WORLD, &r[0]);
    MPI_Ibcast(sent.data(), n, MPI_INT, 0, MPI_COMM_WORLD, &r[1]);
    MPI_Iallgather(mine.data(), n, MPI_INT, gathered.data(), n, MPI_INT, MPI_COMM_WORLD, &r[2]);
    MPI_Ialltoall(many.data(), n, MPI_INT, exchanged.data(), n, MPI_INT, MPI_COMM_WORLD, &r[3]);
    MPI_Ireduce_scatter_block(many.data(), block.data(), n, MPI_INT, MPI_BXOR, MPI_COMM_WORLD, &r[4]);
    MPI_Igather(mine.data(), n, MPI_INT, to_root.data(), n, MPI_INT, 0, MPI_COMM_WORLD, &r[5]);
    MPI_Iscatter(many.data(), n, MPI_INT, from_root.data(), n, MPI_INT, 0, MPI_COMM_WORLD, &r[6]);
    MPI_Ibarrier(MPI_COMM_WORLD, &r[7]);
    MPI_Waitall(8, r.data(), MPI_STATUSES_IGNORE);
    EXPECT_TRUE(sent == elements<int>(0, n));
    const auto at = [&](int place) { return static_cast<std::ptrdiff_t>(place) * n; };
    std::vector<int> reduction(n), own(n);
    for (int other = 0; other < ranks; ++other) {
        const std::vector<int> theirs = elements<int>(other, n), all_theirs = elements<int>(other, all);
        EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), gathered.begin() + at(other)));
        EXPECT_TRUE(rank != 0 || std::equal(theirs.begin(), theirs.end(), to_root.begin() + at(other)));
        EXPECT_TRUE(std::equal(all_theirs.begin() + at(rank), all_theirs.begin() + at(rank + 1),
                               exchanged.begin() + at(other)));
        for (int i = 0; i < n; ++i) {
            reduction[static_cast<std::size_t>(i)] ^= theirs[static_cast<std::size_t>(i)];
            own[static_cast<std::size_t>(i)] ^= all_theirs[static_cast<std::size_t>(at(rank) + i)];
        }
    }
    EXPECT_TRUE(rank != 0 || reduced == reduction);
    EXPECT_TRUE(block == own);
    const std::vector<int> of_root = elements<int>(0, all);
    EXPECT_TRUE(std::equal(from_root.begin(), from_root.end(), of_root.begin() + at(rank)));
}

TEST(requests, of_blocks_of_any_length) {
    make_ready();
    const int rank = rank_in(), ranks = size_of();
    const auto length = [](int from, int to) { return (from * 3 + to * 5) % 4 * 1000; };
    std::vector<int> sent, send_counts, send_begins, recv_counts, recv_begins, lengths, begins, expected, all;
    int next = 0;
    for (int r = 0; r < ranks; ++r) {
        send_counts.push_back(length(rank, r));
        send_begins.push_back(static_cast<int>(sent.size()));
        sent.insert(sent.end(), static_cast<std::size_t>(length(rank, r)), rank * 100 + r);
        recv_counts.push_back(length(r, rank));
        recv_begins.push_back(static_cast<int>(expected.size()));
        expected.insert(expected.end(), static_cast<std::size_t>(length(r, rank)), r * 100 + rank);
        lengths.push_back(500 + r);
        begins.push_back(next);
        next += lengths.back();
        all.insert(all.end(), static_cast<std::size_t>(lengths.back()), r);
    }
    const std::vector<int> mine(static_cast<std::size_t>(500 + rank), rank), ones(all.size(), 1);
    std::vector<int> got(expected.size(), -1), again = got, gathered(all.size(), -1), reduced(mine.size(), -1);
    std::vector<MPI_Request> r(4, MPI_REQUEST_NULL);
    const auto exchange = [&](std::vector<int>& into, MPI_Request& request) {
        MPI_Ialltoallv(sent.data(), send_counts.data(), send_begins.data(), MPI_INT, into.data(), recv_counts.data(),
                       recv_begins.data(), MPI_INT, MPI_COMM_WORLD, &request);
    };
    exchange(got, r[0]);
    MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()), MPI_INT, gathered.data(), lengths.data(), begins.data(),
                    MPI_INT, MPI_COMM_WORLD, &r[1]);
    exchange(again, r[2]);
    MPI_Ireduce_scatter(ones.data(), reduced.data(), lengths.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[3]);
    int sum = 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // while others are in flight
    EXPECT_EQ(sum, ranks);
    MPI_Waitall(4, r.data(), MPI_STATUSES_IGNORE);
    EXPECT_TRUE(got == expected && again == expected && gathered == all);
    EXPECT_EQ(std::count(reduced.begin(), reduced.end(), ranks), 500 + rank);
}

TEST(requests, keep_a_datatype_that_is_freed) {
    make_ready();
    const int rank = rank_in(), ranks = size_of();
    MPI_Datatype every_other = MPI_DATATYPE_NULL;
    MPI_Type_vector(n / 2, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    std::vector<int> data(n, rank);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(data.data(), 1, every_other, ranks - 1, MPI_COMM_WORLD, &request);
    MPI_Type_free(&every_other);
    MPI_Datatype another = MPI_DATATYPE_NULL;  // may get the same handle
    MPI_Type_contiguous(3, MPI_INT, &another);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&another);
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], i % 2 == 0 ? ranks - 1 : rank) << i;
}

TEST(requests, outlive_their_communicator) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int one = 1;
    MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, comm);
    std::vector<int> data(n, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, data.data(), n, MPI_INT, MPI_SUM, comm, &request);
    MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(std::count(data.begin(), data.end(), size_of()), n);
}

}  // namespace drop_in
