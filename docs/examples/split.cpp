#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

#include <terrace/mpi.hpp>

// Sums over rows of two ranks each; the plan of a row is made for the part of the machine that it is on.
static void sum_rows(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    std::optional<terrace::communicator> row = comm.split(comm.rank() / 2, comm.rank());
    std::vector<std::int64_t> sum{comm.rank()};
    row->allreduce(std::span(sum));
    std::printf("rank %d of %d: %d of %d in its row, sum %d\n", comm.rank(), comm.size(), row->rank(), row->size(),
                static_cast<int>(sum[0]));
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        sum_rows(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
