#include <mpi.h>

#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// Rank 0 hands out numbers and takes the squares in whatever order they come.
static void square(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    constexpr int task = 1, answer = 2;  // tags
    std::vector<double> numbers(1000, comm.rank());
    if (comm.rank() != 0) {
        comm.recv(numbers, 0, task);
        for (double& x : numbers) x *= x;
        comm.send(numbers, 0, answer);
        return;
    }
    for (int r = 1; r < comm.size(); ++r) {
        numbers.assign(1000, r);
        comm.send(numbers, r, task);
    }
    for (int r = 1; r < comm.size(); ++r) {
        const terrace::received got = comm.recv(numbers, terrace::any_source, answer);
        std::printf("rank %d: %d numbers, the first is %g\n", got.source, static_cast<int>(got.count), numbers[0]);
    }
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        square(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
