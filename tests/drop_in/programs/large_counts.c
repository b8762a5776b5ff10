/* Functions for large counts (MPI 4): each is compared with the function of the same name without _c. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { most = 16, block = 500 };

static int rank, ranks, wrong;
static int mine[most * block], small[most * block], large[most * block];

static void compare(void) {
    wrong += memcmp(small, large, sizeof small) != 0;
    memset(small, 0, sizeof small);
    memset(large, 0, sizeof large);
}

int main(int argc, char** argv) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Count blocks[most], block_c = block;
    MPI_Aint begins[most];
    int counts[most], offsets[most], total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int i = 0; i < most * block; ++i) mine[i] = rank * 7 + i;
    for (int r = 0; r < most; ++r) {
        blocks[r] = counts[r] = block - r;
        begins[r] = offsets[r] = r * block;
    }
    MPI_Allreduce(mine, small, block, MPI_INT, MPI_SUM, comm);
    MPI_Allreduce_c(mine, large, block_c, MPI_INT, MPI_SUM, comm);
    compare();
    MPI_Reduce(mine, small, block, MPI_INT, MPI_SUM, 0, comm);
    MPI_Reduce_c(mine, large, block_c, MPI_INT, MPI_SUM, 0, comm);
    compare();
    memcpy(small, mine, sizeof mine);
    memcpy(large, mine, sizeof mine);
    MPI_Bcast(small, block, MPI_INT, 0, comm);
    MPI_Bcast_c(large, block_c, MPI_INT, 0, comm);
    compare();
    MPI_Allgather(mine, block, MPI_INT, small, block, MPI_INT, comm);
    MPI_Allgather_c(mine, block_c, MPI_INT, large, block_c, MPI_INT, comm);
    compare();
    MPI_Allgatherv(mine, counts[rank], MPI_INT, small, counts, offsets, MPI_INT, comm);
    MPI_Allgatherv_c(mine, blocks[rank], MPI_INT, large, blocks, begins, MPI_INT, comm);
    compare();
    MPI_Reduce_scatter(mine, small, counts, MPI_INT, MPI_SUM, comm);
    MPI_Reduce_scatter_c(mine, large, blocks, MPI_INT, MPI_SUM, comm);
    compare();
    MPI_Reduce_scatter_block(mine, small, block, MPI_INT, MPI_SUM, comm);
    MPI_Reduce_scatter_block_c(mine, large, block_c, MPI_INT, MPI_SUM, comm);
    compare();
    MPI_Alltoall(mine, block, MPI_INT, small, block, MPI_INT, comm);
    MPI_Alltoall_c(mine, block_c, MPI_INT, large, block_c, MPI_INT, comm);
    compare();
    for (int r = 0; r < ranks; ++r) blocks[r] = counts[r] = 1 + (rank + r) % block;
    MPI_Alltoallv(mine, counts, offsets, MPI_INT, small, counts, offsets, MPI_INT, comm);
    MPI_Alltoallv_c(mine, blocks, begins, MPI_INT, large, blocks, begins, MPI_INT, comm);
    compare();
    MPI_Gather(mine, block, MPI_INT, small, block, MPI_INT, 0, comm);
    MPI_Gather_c(mine, block_c, MPI_INT, large, block_c, MPI_INT, 0, comm);
    compare();
    MPI_Scatter(mine, block, MPI_INT, small, block, MPI_INT, 0, comm);
    MPI_Scatter_c(mine, block_c, MPI_INT, large, block_c, MPI_INT, 0, comm);
    compare();
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, comm);
    if (rank == 0) printf("wrong: %d\n", total);
    MPI_Finalize();
    return 0;
}
