#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    {
        const terrace::plan plan = terrace::plan::load(argc > 1 ? argv[1] : "plan.yaml");
        terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, plan);
        std::vector<float> gradients(1 << 20, 1.0f);
        comm.allreduce(std::span(gradients));
        std::printf("rank %d of %d: %g\n", comm.rank(), comm.size(), gradients[0]);
    }
    MPI_Finalize();
}
