#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

// What programs over MPI have in common that say what one thing costs.

namespace terrace::detail::bench {

/// Returns the slowest rank's time of one of several in a row [s]; all ranks begin together.
template <class Work>
double time_of(Work work, int in_a_row = 1) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < in_a_row; ++i) work();
    double seconds = (MPI_Wtime() - start) / in_a_row;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

/// Returns the median of an odd number of times.
inline double median(std::vector<double> times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
}

/// Returns a communicator of all ranks by the plan, wherever they run.
inline communicator on_any_machine(const char* plan_file, options o = {}) {
    o.place = options::placement::anywhere;
    return mpi::create(MPI_COMM_WORLD, plan::load(plan_file), o);
}

/// Runs what a program does between MPI_Init and MPI_Finalize. Bad usage and errors are said once, and end all ranks.
template <class Work>
int run_cost_program(bool usage_is_fine, const char* usage, Work work) {
    if (!usage_is_fine) {
        std::fprintf(stderr, "usage: mpirun -np N %s\n", usage);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    try {
        work();
    } catch (const error& e) {
        std::fputs(mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}

}  // namespace terrace::detail::bench
