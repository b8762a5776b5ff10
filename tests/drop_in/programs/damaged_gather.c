/* A program whose MPI_Gatherv delivers wrong data. */
#include <stdio.h>
#include <string.h>

#include <mpi.h>

/* The drop-in gathers the rows of its report by this function. */
int PMPI_Gatherv(const void* send, int count, MPI_Datatype type, void* recv, const int counts[], const int begins[],
                 MPI_Datatype into, int root, MPI_Comm comm) {
    (void)send, (void)count, (void)type, (void)into;
    int rank = 0, size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank == root)
        for (int r = 0; r < size; ++r) memset((char*)recv + begins[r], '[', (size_t)counts[r]);
    return MPI_SUCCESS;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int one = 1, sum = 0, rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) printf("wrong: %d\n", sum != size);
    return 0;
}
