// Each collective that only MPI runs, once.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int one[] = {1, 1}, at[] = {0, 1}, bytes[] = {0, sizeof(int)}, ring = 2, periodic = 1;
    const MPI_Datatype types[] = {MPI_INT, MPI_INT};
    int mine = rank + 1, got = 0, pair[2] = {0, 0}, from[] = {10 + rank, 20 + rank};

    MPI_Gatherv(&mine, 1, MPI_INT, pair, one, at, MPI_INT, 0, MPI_COMM_WORLD);
    wrong += rank == 0 && (pair[0] != 1 || pair[1] != 2);
    MPI_Scatterv(from, one, at, MPI_INT, &got, 1, MPI_INT, 0, MPI_COMM_WORLD);
    wrong += got != 10 + 10 * rank;
    MPI_Alltoallw(from, one, bytes, types, pair, one, bytes, types, MPI_COMM_WORLD);
    wrong += pair[0] != 10 + 10 * rank || pair[1] != 11 + 10 * rank;
    MPI_Scan(&mine, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += got != (rank == 0 ? 1 : 3);
    MPI_Exscan(&mine, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += rank == 1 && got != 1;
    MPI_Request started;
    MPI_Iscan(&mine, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &started);
    MPI_Wait(&started, MPI_STATUS_IGNORE);
    wrong += got != (rank == 0 ? 1 : 3);

    MPI_Comm neighbours;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ring, &periodic, 0, &neighbours);
    MPI_Neighbor_allgather(&mine, 1, MPI_INT, pair, 1, MPI_INT, neighbours);
    wrong += pair[0] != 2 - rank || pair[1] != 2 - rank;
    MPI_Neighbor_allgatherv(&mine, 1, MPI_INT, pair, one, at, MPI_INT, neighbours);
    wrong += pair[0] != 2 - rank || pair[1] != 2 - rank;
    MPI_Neighbor_alltoall(from, 1, MPI_INT, pair, 1, MPI_INT, neighbours);
    wrong += pair[0] + pair[1] != 30 + 2 * (1 - rank);
    MPI_Neighbor_alltoallv(from, one, at, MPI_INT, pair, one, at, MPI_INT, neighbours);
    wrong += pair[0] + pair[1] != 30 + 2 * (1 - rank);
    const MPI_Aint byte[] = {0, sizeof(int)};
    MPI_Neighbor_alltoallw(from, one, byte, types, pair, one, byte, types, neighbours);
    wrong += pair[0] + pair[1] != 30 + 2 * (1 - rank);
    MPI_Comm_free(&neighbours);

    int all = 0;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("wrong: %d\n", all);
    MPI_Finalize();
    return 0;
}
