#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// One rank has read the first parameters; all ranks begin with the same.
static void spread_parameters(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const int root = comm.size() - 1;

    std::vector<float> parameters(100'000);
    if (comm.rank() == root) parameters.assign(parameters.size(), 0.5f);
    comm.broadcast(parameters, root);

    std::printf("rank %d of %d: %g\n", comm.rank(), comm.size(), parameters.back());
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        spread_parameters(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
