#include <mpi.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include <terrace/mpi.hpp>

static void write_part(int rank) { std::printf("rank %d has written its part\n", rank); }

static void compute() {
    std::vector<double> numbers(1000, 0.5);
    std::printf("sum: %g\n", std::accumulate(numbers.begin(), numbers.end(), 0.0));
}

// Every rank does its part, and goes on once all have.
static void work_in_steps(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));

    write_part(comm.rank());
    comm.barrier();  // now all parts are there

    terrace::request all_here = comm.barrier_async();
    compute();  // while others arrive
    all_here.wait();
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        work_in_steps(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
