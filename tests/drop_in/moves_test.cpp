// Calls that move data: datatypes that differ between ranks, gaps, and any order of blocks.

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "drop_in/ranks.hpp"

namespace drop_in {

namespace {

// Returns the elements of all ranks, one rank after another.
std::vector<int> of_all(int ranks, std::size_t each) {
    std::vector<int> all;
    for (int r = 0; r < ranks; ++r) {
        const std::vector<int> block = elements<int>(r, each);
        all.insert(all.end(), block.begin(), block.end());
    }
    return all;
}

// Returns the datatype of n ints, with a gap of one int after each.
MPI_Datatype every_other(int n) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Type_vector(n, 1, 2, MPI_INT, &made);
    MPI_Type_commit(&made);
    return made;
}

std::vector<int> spread(const std::vector<int>& dense) {
    std::vector<int> wide(2 * dense.size(), -1);
    for (std::size_t i = 0; i < dense.size(); ++i) wide[2 * i] = dense[i];
    return wide;
}

}  // namespace

TEST(moves, bcast) {
    const int rank = rank_in(), ranks = size_of();
    for (const int n : counts)
        for (const int root : {0, ranks - 1}) {
            const std::vector<int> sent = elements<int>(root, static_cast<std::size_t>(n));
            std::vector<int> data = rank == root ? sent : std::vector<int>(sent.size());
            MPI_Bcast(data.data(), n, MPI_INT, root, MPI_COMM_WORLD);
            EXPECT_TRUE(data == sent);
        }
}

// One rank has a derived type. Ranks' type signatures are equal, as MPI requires; their datatypes and counts differ.
TEST(moves, bcast_of_types_that_differ) {
    const int rank = rank_in(), ranks = size_of(), n = 1000;
    for (int odd = 0; odd < ranks; ++odd) {
        const std::vector<int> sent = elements<int>(0, n);
        MPI_Datatype type = every_other(n);
        if (rank == odd) {
            std::vector<int> wide = rank == 0 ? spread(sent) : std::vector<int>(2 * n, -1);
            MPI_Bcast(wide.data(), 1, type, 0, MPI_COMM_WORLD);
            EXPECT_TRUE(wide == spread(sent)) << "rank " << odd;
        } else {
            std::vector<int> data = rank == 0 ? sent : std::vector<int>(n);
            MPI_Bcast(data.data(), n, MPI_INT, 0, MPI_COMM_WORLD);
            EXPECT_TRUE(data == sent);
        }
        MPI_Type_free(&type);
    }
}

TEST(moves, allgather) {
    const int rank = rank_in(), ranks = size_of();
    for (const int n : counts) {
        const auto each = static_cast<std::size_t>(n);
        const std::vector<int> mine = elements<int>(rank, each), all = of_all(ranks, each);
        std::vector<int> got(all.size()), in_place(all.size());
        std::copy(mine.begin(), mine.end(), in_place.begin() + rank * n);
        MPI_Allgather(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, MPI_COMM_WORLD);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place.data(), n, MPI_INT, MPI_COMM_WORLD);
        EXPECT_TRUE(got == all && in_place == all) << n;
    }
}

TEST(moves, allgather_of_a_pair_of_types) {
    const int rank = rank_in(), ranks = size_of(), n = 500;
    const std::vector<int> mine = elements<int>(rank, n), all = of_all(ranks, n);
    MPI_Datatype type = every_other(n);
    std::vector<int> got(all.size());
    if (rank % 2 == 0) {
        const std::vector<int> wide = spread(mine);
        MPI_Allgather(wide.data(), 1, type, got.data(), n, MPI_INT, MPI_COMM_WORLD);
    } else MPI_Allgather(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, MPI_COMM_WORLD);
    EXPECT_TRUE(got == all);
    MPI_Type_free(&type);
}

// Displacements may differ between ranks; blocks may have gaps, and any order.
TEST(moves, allgatherv_with_gaps) {
    const int rank = rank_in(), ranks = size_of();
    for (const int n : counts) {
        std::vector<int> lengths, begins;
        int next = rank % 2 == 0 ? 0 : 5;
        for (int r = 0; r < ranks; ++r) {
            lengths.push_back(r == 0 ? 0 : n + r);
            begins.push_back(next);
            next += lengths.back() + (rank % 2 == 0 ? 0 : 3);
        }
        if (rank == ranks - 1) std::reverse(begins.begin(), begins.end());
        if (rank == ranks - 1)
            for (int r = ranks - 1, at = 0; r >= 0; at += lengths[static_cast<std::size_t>(r--)])
                begins[static_cast<std::size_t>(r)] = at;
        const std::vector<int> mine =
            elements<int>(rank, static_cast<std::size_t>(lengths[static_cast<std::size_t>(rank)]));
        std::vector<int> expected(static_cast<std::size_t>(next) + 5, -1), got = expected, in_place = expected;
        for (int r = 0; r < ranks; ++r) {
            const std::vector<int> block =
                elements<int>(r, static_cast<std::size_t>(lengths[static_cast<std::size_t>(r)]));
            std::copy(block.begin(), block.end(), expected.begin() + begins[static_cast<std::size_t>(r)]);
        }
        std::copy(mine.begin(), mine.end(), in_place.begin() + begins[static_cast<std::size_t>(rank)]);
        MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_INT, got.data(), lengths.data(), begins.data(),
                       MPI_INT, MPI_COMM_WORLD);
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place.data(), lengths.data(), begins.data(), MPI_INT,
                       MPI_COMM_WORLD);
        EXPECT_TRUE(got == expected && in_place == expected) << n;
    }
}

TEST(moves, alltoall) {
    const int rank = rank_in(), ranks = size_of();
    for (const int n : {1, 7, 5000}) {
        const auto each = static_cast<std::size_t>(n), all = each * static_cast<std::size_t>(ranks);
        const std::vector<int> mine = elements<int>(rank, all);
        std::vector<int> expected, got(all), in_place = mine;
        for (int r = 0; r < ranks; ++r) {
            const std::vector<int> theirs = elements<int>(r, all);
            expected.insert(expected.end(), theirs.begin() + rank * n, theirs.begin() + (rank + 1) * n);
        }
        MPI_Alltoall(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, MPI_COMM_WORLD);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_place.data(), n, MPI_INT, MPI_COMM_WORLD);
        EXPECT_TRUE(got == expected && in_place == expected) << n;
    }
}

TEST(moves, alltoallv) {
    const int rank = rank_in(), ranks = size_of();
    const auto length = [](int from, int to) { return (from * 7 + to * 3) % 5 * 100; };
    std::vector<int> send_counts, send_begins, recv_counts, recv_begins, sent;
    int next = 2;
    for (int r = 0; r < ranks; ++r) {
        send_counts.push_back(length(rank, r));
        send_begins.push_back(static_cast<int>(sent.size()));
        for (int i = 0; i < send_counts.back(); ++i) sent.push_back(rank * 1'000'000 + r * 10'000 + i);
        recv_counts.push_back(length(r, rank));
        recv_begins.push_back(next);
        next += recv_counts.back() + 1;
    }
    std::vector<int> got(static_cast<std::size_t>(next) + 1, -1);
    MPI_Alltoallv(sent.data(), send_counts.data(), send_begins.data(), MPI_INT, got.data(), recv_counts.data(),
                  recv_begins.data(), MPI_INT, MPI_COMM_WORLD);
    EXPECT_EQ(got.front(), -1);
    for (int r = 0; r < ranks; ++r) {
        const auto block = got.begin() + recv_begins[static_cast<std::size_t>(r)];
        for (int i = 0; i < length(r, rank); ++i) EXPECT_EQ(block[i], r * 1'000'000 + rank * 10'000 + i);
        EXPECT_EQ(block[length(r, rank)], -1);
    }
}

TEST(moves, gather_and_scatter) {
    const int rank = rank_in(), ranks = size_of();
    for (const int n : counts)
        for (const int root : {0, ranks - 1}) {
            const auto each = static_cast<std::size_t>(n);
            const bool is_root = rank == root;
            const std::vector<int> mine = elements<int>(rank, each), all = of_all(ranks, each);
            std::vector<int> got(is_root ? all.size() : 0), in_place = got;
            if (is_root) std::copy(mine.begin(), mine.end(), in_place.begin() + rank * n);
            MPI_Gather(mine.data(), n, MPI_INT, got.data(), n, MPI_INT, root, MPI_COMM_WORLD);
            MPI_Gather(is_root ? MPI_IN_PLACE : mine.data(), n, MPI_INT, in_place.data(), n, MPI_INT, root,
                       MPI_COMM_WORLD);
            if (is_root) {
                EXPECT_TRUE(got == all && in_place == all) << n;
            }
            std::vector<int> part(each), kept = all;
            MPI_Scatter(is_root ? all.data() : nullptr, n, MPI_INT, part.data(), n, MPI_INT, root, MPI_COMM_WORLD);
            EXPECT_TRUE(part == mine) << n;
            std::fill(part.begin(), part.end(), 0);
            MPI_Scatter(is_root ? kept.data() : nullptr, n, MPI_INT, is_root ? MPI_IN_PLACE : part.data(), n, MPI_INT,
                        root, MPI_COMM_WORLD);
            EXPECT_TRUE(is_root ? kept == all : part == mine) << n;
        }
}

TEST(moves, barrier) { EXPECT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS); }

// Rank 0 waits in a collective for rank 1, which first needs rank 0 to receive its message.
TEST(moves, a_collective_moves_other_messages_along) {
    const int rank = rank_in(), ranks = size_of();
    if (ranks < 2) GTEST_SKIP();
    std::vector<int> big = elements<int>(1, 1 << 20), got(big.size());
    MPI_Request incoming = MPI_REQUEST_NULL;
    if (rank == 0) MPI_Irecv(got.data(), 1 << 20, MPI_INT, 1, 3, MPI_COMM_WORLD, &incoming);
    if (rank == 1) MPI_Send(big.data(), 1 << 20, MPI_INT, 0, 3, MPI_COMM_WORLD);
    int mine = 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Wait(&incoming, MPI_STATUS_IGNORE);
    EXPECT_EQ(sum, ranks);
    if (rank == 0) {
        EXPECT_TRUE(got == big);
    }
}

}  // namespace drop_in
