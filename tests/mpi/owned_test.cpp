// The variable of Open MPI that this library writes is the one that Open MPI's parameter shows.

#include "transport/mpi/owned.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include "support/mpi_ranks.hpp"

namespace terrace::detail::test::owned_test {

namespace {

#ifdef OMPI_MAJOR_VERSION

TEST(mpi_owned, open_mpi_ends_without_others) {
    if (ranks() > 1) GTEST_SKIP() << "others would wait for this rank when they end";
    int level = 0, index = 0, count = 0;
    MPI_T_cvar_handle parameter = MPI_T_CVAR_HANDLE_NULL;
    ASSERT_EQ(MPI_T_init_thread(MPI_THREAD_SINGLE, &level), MPI_SUCCESS);
    ASSERT_EQ(MPI_T_cvar_get_index("async_mpi_finalize", &index), MPI_SUCCESS);
    ASSERT_EQ(MPI_T_cvar_handle_alloc(index, nullptr, &parameter, &count), MPI_SUCCESS);
    bool value = true;
    EXPECT_EQ(MPI_T_cvar_read(parameter, &value), MPI_SUCCESS);
    EXPECT_FALSE(value);
    finalize_without_others();
    EXPECT_EQ(MPI_T_cvar_read(parameter, &value), MPI_SUCCESS);
    EXPECT_TRUE(value);
    MPI_T_cvar_handle_free(&parameter);
    MPI_T_finalize();
}

#endif

}  // namespace

}  // namespace terrace::detail::test::owned_test
