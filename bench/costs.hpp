#pragma once

#include <cstddef>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

// What the program `costs` hands to each of its measurements.

namespace terrace::detail::bench {

struct given {
    int rank = 0, ranks = 0;
    MPI_Comm of = MPI_COMM_WORLD;      ///< the ranks that take part
    const char* plan = nullptr;        ///< file
    std::vector<std::size_t> numbers;  ///< sizes and counts
};

/// Returns the slowest rank's time of one of several in a row [s]; all ranks begin together.
template <class Work>
double time_of(Work&& work, int in_a_row = 1, MPI_Comm of = MPI_COMM_WORLD) {
    MPI_Barrier(of);
    const double start = MPI_Wtime();
    for (int i = 0; i < in_a_row; ++i) work();
    double seconds = (MPI_Wtime() - start) / in_a_row;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, of);
    return seconds;
}

/// Prints the memory that calls need.
void memory(const given& g);

}  // namespace terrace::detail::bench
