#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// Sums a vector over all ranks by the plan named on the command line, or else by one made for the job as it is.
static void sum_gradients(const char* plan_file) {
    terrace::options options = terrace::options::from_environment();
    if (plan_file) options.plan_file = plan_file;
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, options);
    std::vector<float> gradients(1 << 20, 1.0f);
    comm.allreduce(gradients);
    std::printf("rank %d of %d: %g\n", comm.rank(), comm.size(), gradients[0]);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        sum_gradients(argc > 1 ? argv[1] : nullptr);
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
