// Rank 0 reaches a barrier an hour after rank 1, by rank 1's clock. While rank 1 waits, each look at its clock advances
// it by 10 s. Rank 1 creates the file AN_HOUR when the hour is over, and then rank 0 goes on.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int waits;
static atomic_long ahead;

int clock_gettime(clockid_t clock, struct timespec* now) {
    const int code = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock != CLOCK_MONOTONIC) return code;
    if (waits && ahead < 3600 && atomic_fetch_add(&ahead, 10) == 3590) close(creat(getenv("AN_HOUR"), 0600));
    now->tv_sec += ahead;
    return code;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);  // creates Terrace's communicator
    if (rank == 0)
        while (access(getenv("AN_HOUR"), F_OK) != 0) usleep(1000);
    waits = rank == 1;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int late = 1; late >= 0; --late) {  // while a rank waits, it reads control messages
        if (rank == late) usleep(100000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) printf("wrong: 0\n");
    MPI_Finalize();
    return 0;
}
