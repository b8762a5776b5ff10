// Several threads, each with its own communicator.

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "drop_in/ranks.hpp"

namespace drop_in {

TEST(threads, have_communicators_of_their_own) {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "MPI has one thread";
    constexpr int count = 3;
    std::vector<MPI_Comm> comms(count, MPI_COMM_NULL);
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    std::vector<int> wrong(count, 0);
    std::vector<std::thread> all;
    for (int t = 0; t < count; ++t)
        all.emplace_back([&, t] {
            const MPI_Comm comm = comms[static_cast<std::size_t>(t)];
            const int ranks = size_of(comm);
            for (int call = 0; call < 40; ++call) {
                std::vector<int> data(500, t + call), first(10, rank_in(comm));
                MPI_Allreduce(MPI_IN_PLACE, data.data(), 500, MPI_INT, MPI_SUM, comm);
                MPI_Bcast(first.data(), 10, MPI_INT, ranks - 1, comm);
                wrong[static_cast<std::size_t>(t)] += std::count(data.begin(), data.end(), ranks * (t + call)) != 500;
                wrong[static_cast<std::size_t>(t)] += std::count(first.begin(), first.end(), ranks - 1) != 10;
                MPI_Request request = MPI_REQUEST_NULL;
                MPI_Iallreduce(MPI_IN_PLACE, first.data(), 10, MPI_INT, MPI_MAX, comm, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                wrong[static_cast<std::size_t>(t)] += std::count(first.begin(), first.end(), ranks - 1) != 10;
            }
        });
    for (std::thread& t : all) t.join();
    EXPECT_EQ(wrong, std::vector<int>(count, 0));
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace drop_in
