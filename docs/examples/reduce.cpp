// One rank reports the largest loss of all.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    {
        terrace::communicator comm =
            terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(argc > 1 ? argv[1] : "plan.yaml"));
        const int root = 0;

        const std::vector<double> losses{0.25 * comm.rank(), -1.0};
        std::vector<double> worst(comm.rank() == root ? losses.size() : 0);
        comm.reduce(std::span(losses), std::span(worst), root, terrace::reduce_op::max);

        if (comm.rank() == root) std::printf("of %d ranks: %g and %g\n", comm.size(), worst[0], worst[1]);
    }
    MPI_Finalize();
}
