#pragma once

#include <mpi.h>

namespace terrace::detail::test {

inline int ranks() {
    int n = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    return n;
}

inline int rank() {
    int n = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &n);
    return n;
}

}  // namespace terrace::detail::test
