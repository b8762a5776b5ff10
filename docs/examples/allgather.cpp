#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <terrace/mpi.hpp>

// Every rank has updated its own part of the parameters and gets the parts of all others.
static void gather_parameters(const char* plan_file) {
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file));
    const auto ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());

    // In place: the own part lies where it belongs already.
    std::vector<double> parameters(500 * ranks);
    const std::span mine = std::span(parameters).subspan(500 * rank, 500);
    for (double& p : mine) p = comm.rank();
    comm.allgather(mine, parameters);

    // Words of different lengths: rank r has r + 1 letters.
    std::vector<std::int64_t> counts;
    std::int64_t letters = 0;
    for (int r = 0; r < comm.size(); ++r) letters += counts.emplace_back(r + 1);
    const std::string word(rank + 1, static_cast<char>('a' + rank));
    std::string text(static_cast<std::size_t>(letters), ' ');
    comm.allgather(word, text, counts);

    std::printf("rank %d of %d: %g to %g, %s\n", comm.rank(), comm.size(), parameters.front(), parameters.back(),
                text.c_str());
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        gather_parameters(argc > 1 ? argv[1] : "plan.yaml");
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);  // once, with the ranks
        MPI_Abort(MPI_COMM_WORLD, 1);  // other ranks may still wait for this one
    }
    MPI_Finalize();
}
