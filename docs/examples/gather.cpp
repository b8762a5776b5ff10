#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// One rank writes down what all have measured.
static void collect_times(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const int root = 0;

    const std::vector<double> times{0.5 * comm.rank(), 1.0};
    std::vector<double> table(comm.rank() == root ? times.size() * static_cast<std::size_t>(comm.size()) : 0);
    comm.gather(times, table, root);

    if (comm.rank() == root) std::printf("of %d ranks: %g to %g\n", comm.size(), table.front(), table.back());
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        collect_times(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
