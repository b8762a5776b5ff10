// Measures messages under SimGrid, pair by pair: ping BYTES FROM TO ... prints "FROM TO SECONDS" for each pair.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>
#include <simgrid/s4u/Actor.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int bytes = std::atoi(argv[1]);
    std::vector<char> data(static_cast<std::size_t>(bytes));
    for (int i = 2; i + 1 < argc; i += 2) {
        const int from = std::atoi(argv[i]), to = std::atoi(argv[i + 1]);
        simgrid::s4u::this_actor::sleep_until(i);  // on all ranks at the same moment
        if (rank == from) MPI_Send(data.data(), bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
        if (rank != to) continue;
        MPI_Recv(data.data(), bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        std::printf("%d %d %.12g\n", from, to, MPI_Wtime() - i);
    }
    MPI_Finalize();
    return 0;
}
