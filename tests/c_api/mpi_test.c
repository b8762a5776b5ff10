// The C API over MPI.
#include <terrace/terrace_mpi.h>

#include "calls.h"

int main(int argc, char** argv) {
    terrace_communicator* comm = NULL;
    EXPECT(terrace_mpi_create(MPI_COMM_WORLD, terrace_no_device, NULL, NULL, &comm) == terrace_usage_error);
    EXPECT_SAYS("MPI does not run");
    MPI_Init(&argc, &argv);
    EXPECT_OK(terrace_mpi_create(MPI_COMM_WORLD, terrace_no_device, NULL, NULL, &comm));
    try_all(comm);
    terrace_communicator_destroy(comm);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
