// Nonblocking calls, which must progress while rank 0 waits in MPI_Recv: the other ranks send their message only when
// the calls are complete.
#include <mpi.h>
#include <stdio.h>

enum { n = 50000, rounds = 20 };
static int data[n];

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);  // creates the drop-in's communicator
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < n; ++i) data[i] = rank + i;
        MPI_Request sum, bcast;
        int from_last = rank;
        MPI_Iallreduce(MPI_IN_PLACE, data, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &sum);
        MPI_Ibcast(&from_last, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD, &bcast);
        if (rank == 0) {
            int ready;
            for (int r = 1; r < ranks; ++r) MPI_Recv(&ready, 1, MPI_INT, r, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Request both[] = {sum, bcast};
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        if (rank != 0) MPI_Send(&rank, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        for (int i = 0; i < n; ++i) wrong += data[i] != ranks * (ranks - 1) / 2 + ranks * i;
        wrong += from_last != ranks - 1;
    }
    int all = 0;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("wrong: %d\n", all);
    MPI_Finalize();
    return 0;
}
