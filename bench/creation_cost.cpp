// What it costs to make a communicator, beside MPI's own: medians by turns. Without PLAN one is made at creation, or
// found in TERRACE_PLAN_CACHE.
//
//   mpirun -np 12 creation-cost [PLAN]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "bench/cost_program.hpp"

namespace {

using namespace terrace::detail::bench;

constexpr int turns = 7;

void print(const char* what, std::vector<double> seconds) {
    const double first = seconds.front();
    std::sort(seconds.begin(), seconds.end());
    std::printf("%-28s %8.2f  (first %.2f, slowest %.2f)\n", what, seconds[turns / 2] * 1e3, first * 1e3,
                seconds.back() * 1e3);
}

void print_costs(const char* plan_file) {
    std::vector<double> create, destroy, unwatched, duplicate;
    const terrace::options o = terrace::options::from_environment();
    terrace::options nobody_looks = o;
    nobody_looks.failure_timeout = std::chrono::seconds(0);
    std::optional<terrace::communicator> made;
    const auto time_with = [&](const terrace::options& how) {
        made.reset();
        return time_of([&] {
            made.emplace(plan_file == nullptr ? terrace::mpi::create(MPI_COMM_WORLD, how)
                                              : on_any_machine(plan_file, how));
        });
    };
    for (int turn = 0; turn < turns; ++turn) {
        create.push_back(time_with(o));
        destroy.push_back(time_of([&] { made.reset(); }));
        unwatched.push_back(time_with(nobody_looks));
        duplicate.push_back(time_of([] {
            MPI_Comm copy;
            MPI_Comm_dup(MPI_COMM_WORLD, &copy);
            MPI_Comm_free(&copy);
        }));
    }
    made.reset();
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank != 0) return;
    std::printf("%d ranks, ms: median of %d, the slowest rank's\n", ranks, turns);
    print("creation", create);
    print("  without failure_timeout", unwatched);
    print("end of life", destroy);
    print("MPI_Comm_dup, MPI_Comm_free", duplicate);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    return run_cost_program(argc <= 2, "creation-cost [PLAN]", [&] { print_costs(argv[1]); });
}
