// One rank has read the first parameters; all ranks begin with the same.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    {
        terrace::communicator comm =
            terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(argc > 1 ? argv[1] : "plan.yaml"));
        const int root = comm.size() - 1;

        std::vector<float> parameters(100'000);
        if (comm.rank() == root) parameters.assign(parameters.size(), 0.5f);
        comm.broadcast(std::span(parameters), root);

        std::printf("rank %d of %d: %g\n", comm.rank(), comm.size(), parameters.back());
    }
    MPI_Finalize();
}
