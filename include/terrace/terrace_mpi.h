#pragma once

#include <mpi.h>

#include <terrace/mpi_library.h>
#include <terrace/terrace.h>

// Terrace over MPI, in C. The program compiles the code below, with its own MPI.

static inline int terrace_mpi_processes(void) {
    int up = 0, down = 0, size = 0;
    MPI_Initialized(&up);
    MPI_Finalized(&down);
    if (up && !down) MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static inline int terrace_mpi_on_all(const void* comm, int mine) {
    int all = mine != 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, *(const MPI_Comm*)comm);
    return all;
}

/// Makes a communicator of all ranks of `world`, which it duplicates. MPI must outlive the communicator. Collective.
/// @param device terrace_no_device, terrace_device_by_rank, or the number of a GPU on this node
/// @param options, plan may be NULL, as in terrace.h
static inline terrace_status terrace_mpi_create(MPI_Comm world, int device, const terrace_options* options,
                                                const terrace_plan* plan, terrace_communicator** made) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    const terrace_mpi_world all = {TERRACE_MPI_LIBRARY,
                                   &world,
                                   version,
                                   &terrace_mpi_processes,
                                   &terrace_mpi_on_all,
                                   (void (*)(void)) & MPI_Comm_rank};
    return terrace_mpi_create_in(&all, device, options, plan, made);
}
