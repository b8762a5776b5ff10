#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <terrace/mpi.hpp>

// Every rank has rows of a matrix and gets its columns: the step between the two halves of a transform.
static void turn_matrix(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const auto ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());

    // 16 numbers for each rank, side by side: block r goes to rank r.
    constexpr std::size_t block = 16;
    std::vector<float> rows(block * ranks), columns(block * ranks);
    for (std::size_t to = 0; to < ranks; ++to)
        for (std::size_t i = 0; i < block; ++i) rows[to * block + i] = static_cast<float>(100 * rank + to);
    comm.alltoall(rows, columns);  // block r of columns comes from rank r

    // In the background, of bytes. The buffers stay untouched until the request is complete.
    std::vector<std::uint8_t> asked(64 * ranks, 1), answered(64 * ranks);
    terrace::request answers = comm.alltoall_async(asked, answered);
    answers.wait();

    std::printf("rank %zu of %zu: %g to %g\n", rank, ranks, columns.front(), columns.back());
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        turn_matrix(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
