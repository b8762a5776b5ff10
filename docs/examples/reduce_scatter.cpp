#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include <terrace/mpi.hpp>

// Every rank has a whole gradient and gets the average of its own part.
static void share_gradients(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const auto ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());

    // Equal blocks: block r of `gradient` goes to rank r.
    std::vector<float> gradient(1000 * ranks, 1.0f + static_cast<float>(rank));
    std::vector<float> mine(1000);
    comm.reduce_scatter(gradient, mine, terrace::reduce_op::avg);

    // Blocks of 10 elements; the last rank's block has 7.
    std::vector<std::int64_t> counts(ranks, 10);
    counts[ranks - 1] = 7;
    std::vector<std::int32_t> hits(10 * ranks - 3, 1);
    std::vector<std::int32_t> my_hits(static_cast<std::size_t>(counts[rank]));
    comm.reduce_scatter(hits, my_hits, counts);

    std::printf("rank %d of %d: %g, %zu times %d\n", comm.rank(), comm.size(), mine[0], my_hits.size(), my_hits[0]);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        share_gradients(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
