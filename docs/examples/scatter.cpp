#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// One rank has read a file and deals out its parts.
static void deal_out(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const int root = 0;

    std::vector<std::uint8_t> file(comm.rank() == root ? 100 * static_cast<std::size_t>(comm.size()) : 0, 7);
    std::vector<std::uint8_t> part(100);
    comm.scatter(file, part, root);

    std::printf("rank %d of %d: %d\n", comm.rank(), comm.size(), part.back());
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        deal_out(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
