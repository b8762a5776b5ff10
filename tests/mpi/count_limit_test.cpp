// The limit of support/count_limit.cpp works in the program that links it.

#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

TEST(count_limit, fails_calls_of_more_elements) {
    constexpr int limit = 1 << 20;
    std::vector<char> data(limit + 1);
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    EXPECT_EQ(PMPI_Bcast(data.data(), limit, MPI_CHAR, 0, comm), MPI_SUCCESS);
    EXPECT_EQ(PMPI_Bcast(data.data(), limit + 1, MPI_CHAR, 0, comm), MPI_ERR_COUNT);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_EQ(PMPI_Isend(data.data(), limit + 1, MPI_CHAR, 0, 0, comm, &request), MPI_ERR_COUNT);
    MPI_Comm_free(&comm);
}
