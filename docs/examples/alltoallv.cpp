#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// Rows go to the ranks that a router has chosen for them.
static void send_rows(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const auto ranks = static_cast<std::size_t>(comm.size());

    // rows stand in the order of the ranks that they go to.
    std::vector<std::int64_t> sent(ranks, 1), received(ranks);
    sent[0] = 3;  // rank 0 is popular
    const std::vector<float> rows(ranks + 2, 1.0f);
    std::vector<float> mine(3 * ranks);
    const std::int64_t most = 3;  // rows for one rank, from any rank
    comm.alltoallv(rows, sent, mine, received, most);

    std::printf("rank %d: %d rows from rank 0\n", comm.rank(), static_cast<int>(received[0]));
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        send_rows(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
