// Persistent collectives: started one by one and together, alone and with requests of other kinds.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, wrong = 0, mine = 0, sum = 0, last = 0, other = 0, got = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm apart;
    MPI_Comm_dup(MPI_COMM_WORLD, &apart);

    MPI_Request all[3], of_none;
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all[0]);
    MPI_Scan_init(&mine, &last, 1, MPI_INT, MPI_SUM, apart, MPI_INFO_NULL, &all[1]);
    MPI_Bcast_init(&other, 1, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &of_none);
    MPI_Request_free(&of_none);
    if (rank == 0) MPI_Send_init(&mine, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &all[2]);
    else MPI_Recv_init(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &all[2]);
    for (int round = 0; round < 3; ++round) {
        mine = 10 * round + rank;
        if (round == 0) MPI_Startall(3, all);
        else
            for (int i = 0; i < 3; ++i) MPI_Start(&all[i]);
        MPI_Waitall(3, all, MPI_STATUSES_IGNORE);
        wrong += sum != 20 * round + 1 || last != (rank == 0 ? mine : sum) || (rank == 1 && got != 10 * round);
    }
    MPI_Comm_free(&apart);
    for (int i = 0; i < 3; ++i) MPI_Request_free(&all[i]);

    MPI_Reduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("wrong: %d\n", sum);
    MPI_Finalize();
    return 0;
}
