// What a barrier costs beside MPI_Barrier: medians by turns.
//
//   mpirun -np 8 barrier-cost PLAN

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

namespace {

constexpr int turns = 1001, in_a_row = 10;

double slowest(double seconds) {
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

// Returns the time of one of several in a row, so that when ranks begin does not matter [s].
template <class Barrier>
double time_of(Barrier barrier) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < in_a_row; ++i) barrier();
    return slowest(MPI_Wtime() - start) / in_a_row;
}

double quantile(std::vector<double> times, double part) {
    const auto at = times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
    std::nth_element(times.begin(), at, times.end());
    return *at * 1e6;
}

void print_costs(const char* plan_file) {
    terrace::options o;
    o.place = terrace::options::placement::anywhere;
    terrace::communicator comm = terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file), o);
    std::array<std::vector<double>, 2> times;
    for (int turn = 0; turn < turns; ++turn) {
        times[0].push_back(time_of([&] { comm.barrier(); }));
        times[1].push_back(time_of([] { MPI_Barrier(MPI_COMM_WORLD); }));
    }
    if (comm.rank() != 0) return;
    std::printf("barrier of %d ranks, us: median of %d (25 %%, 75 %%), the slowest rank's\n", comm.size(), turns);
    const std::array<const char*, 2> names{"terrace", "MPI_Barrier"};
    for (std::size_t i = 0; i < names.size(); ++i)
        std::printf("%-12s %9.2f (%.2f, %.2f)\n", names[i], quantile(times[i], 0.5), quantile(times[i], 0.25),
                    quantile(times[i], 0.75));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    if (argc != 2) {
        std::fprintf(stderr, "usage: mpirun -np N barrier-cost PLAN\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    try {
        print_costs(argv[1]);
    } catch (const terrace::error& e) {
        std::fputs(terrace::mpi::error_lines(MPI_COMM_WORLD, e).c_str(), stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
