/* A program that is linked with the drop-in, so no environment variable is needed to load it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    int one = 1, sum = 0, ranks, rank, total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    one = sum != ranks;
    MPI_Reduce(&one, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("wrong: %d\n", total);
    MPI_Finalize();
    return 0;
}
