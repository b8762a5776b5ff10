// What it costs to make a communicator from a plan file, beside MPI's own: medians by turns.
//
//   mpirun -np 12 creation-cost PLAN

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "bench/cost_program.hpp"

namespace {

using namespace terrace::detail::bench;

constexpr int turns = 21;

void print(const char* what, std::vector<double> seconds) {
    const double first = seconds.front();
    std::sort(seconds.begin(), seconds.end());
    std::printf("%-28s %8.2f  (first %.2f, slowest %.2f)\n", what, seconds[turns / 2] * 1e3, first * 1e3,
                seconds.back() * 1e3);
}

void print_costs(const char* plan_file) {
    std::vector<double> create, unwatched, duplicate;
    terrace::options o;
    terrace::options nobody_looks = o;
    nobody_looks.failure_timeout = std::chrono::seconds(0);
    const auto time_with = [&](const terrace::options& how) {
        return time_of([&] { on_any_machine(plan_file, how); });
    };
    for (int turn = 0; turn < turns; ++turn) {
        create.push_back(time_with(o));
        unwatched.push_back(time_with(nobody_looks));
        duplicate.push_back(time_of([] {
            MPI_Comm copy;
            MPI_Comm_dup(MPI_COMM_WORLD, &copy);
            MPI_Comm_free(&copy);
        }));
    }
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank != 0) return;
    std::printf("%d ranks, ms: median of %d, the slowest rank's\n", ranks, turns);
    print("plan file to end of life", create);
    print("without failure_timeout", unwatched);
    print("MPI_Comm_dup, MPI_Comm_free", duplicate);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    return run_cost_program(argc == 2, "creation-cost PLAN", [&] { print_costs(argv[1]); });
}
