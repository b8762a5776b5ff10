// main() of GoogleTest programs under mpirun. All ranks run all tests. Rank 0 prints everything, the others only
// failures. With TERRACE_TEST_THREADS in the environment several threads may call MPI.

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>
#include <mpi.h>

namespace {

class only_failures : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
            std::fprintf(stderr, "%s:%d: %s\n", result.file_name(), result.line_number(), result.message());
    }
};

}  // namespace

int main(int argc, char** argv) {
    const char* threads = std::getenv("TERRACE_TEST_THREADS");
    int given = 0;
    MPI_Init_thread(&argc, &argv, threads != nullptr ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &given);
    // If one of several messages fails, MPICH calls this handler, not the communicator's.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    GTEST_FLAG_SET(color, "no");  // under mpirun any output looks like a terminal
    testing::InitGoogleTest(&argc, argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    if (rank != 0 && std::freopen("/dev/null", "w", stdout) != nullptr) {
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new only_failures);
    }
    int failed = RUN_ALL_TESTS(), any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
