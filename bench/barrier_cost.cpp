// What a barrier costs beside MPI_Barrier: medians by turns.
//
//   mpirun -np 8 barrier-cost PLAN

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "bench/cost_program.hpp"

namespace {

using namespace terrace::detail::bench;

constexpr int turns = 1001, in_a_row = 10;  // in a row, so that when ranks begin does not matter

double quantile(std::vector<double> times, double part) {
    const auto at = times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
    std::nth_element(times.begin(), at, times.end());
    return *at * 1e6;
}

void print_costs(const char* plan_file) {
    terrace::communicator comm = on_any_machine(plan_file);
    std::array<std::vector<double>, 2> times;
    for (int turn = 0; turn < turns; ++turn) {
        times[0].push_back(time_of([&] { comm.barrier(); }, in_a_row));
        times[1].push_back(time_of([] { MPI_Barrier(MPI_COMM_WORLD); }, in_a_row));
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
    return run_cost_program(argc == 2, "barrier-cost PLAN", [&] { print_costs(argv[1]); });
}
