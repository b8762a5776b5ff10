/* Threads that call MPI at the same time, each on a communicator of its own, under MPI_THREAD_MULTIPLE. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { threads = 4, rounds = 50, elements = 5000 };

static MPI_Comm comms[threads];
static int wrong[threads];

static void* call(void* argument) {
    const int self = *(const int*)argument;
    static int data[threads][elements];
    int rank, ranks;
    MPI_Comm_rank(comms[self], &rank);
    MPI_Comm_size(comms[self], &ranks);
    for (int round = 0; round < rounds; ++round) {
        const int count = round % 2 ? elements : 3;
        for (int i = 0; i < count; ++i) data[self][i] = rank + self + i;
        MPI_Allreduce(MPI_IN_PLACE, data[self], count, MPI_INT, MPI_SUM, comms[self]);
        for (int i = 0; i < count; ++i) wrong[self] += data[self][i] != ranks * (self + i) + ranks * (ranks - 1) / 2;
        int told = rank == 0 ? self * round : -1;
        MPI_Bcast(&told, 1, MPI_INT, 0, comms[self]);
        wrong[self] += told != self * round;
        MPI_Barrier(comms[self]);
    }
    return NULL;
}

int main(int argc, char** argv) {
    int given, rank, sum = 0, total = 0, numbers[threads];
    pthread_t all[threads];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (given != MPI_THREAD_MULTIPLE) {
        if (rank == 0) printf("this MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 0;
    }
    for (int t = 0; t < threads; ++t) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    for (int t = 0; t < threads; ++t) {
        numbers[t] = t;
        pthread_create(&all[t], NULL, call, &numbers[t]);
    }
    for (int t = 0; t < threads; ++t) {
        pthread_join(all[t], NULL);
        sum += wrong[t];
        MPI_Comm_free(&comms[t]);
    }
    MPI_Reduce(&sum, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("wrong: %d\n", total);
    MPI_Finalize();
    return 0;
}
