#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// One rank reports the largest loss of all.
static void report_loss(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const int root = 0;

    const std::vector<double> losses{0.25 * comm.rank(), -1.0};
    std::vector<double> worst(comm.rank() == root ? losses.size() : 0);
    comm.reduce(losses, worst, root, terrace::reduce_op::max);

    if (comm.rank() == root) std::printf("of %d ranks: %g and %g\n", comm.size(), worst[0], worst[1]);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        report_loss(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
