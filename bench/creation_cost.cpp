// What it costs to make a communicator from a plan file, beside MPI's own: medians by turns.
//
//   mpirun -np 12 creation-cost PLAN

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

namespace {

constexpr int turns = 21;

// The slowest rank's time, s.
template <class Action>
double time_of(Action what) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    what();
    double seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

void print(const char* what, std::vector<double> seconds) {
    const double first = seconds.front();
    std::sort(seconds.begin(), seconds.end());
    std::printf("%-28s %8.2f  (first %.2f, slowest %.2f)\n", what, seconds[turns / 2] * 1e3, first * 1e3,
                seconds.back() * 1e3);
}

void print_costs(const char* plan_file) {
    std::vector<double> create, unwatched, duplicate;
    terrace::options o;
    o.place = terrace::options::placement::anywhere;
    terrace::options nobody_looks = o;
    nobody_looks.failure_timeout = std::chrono::seconds(0);
    const auto time_with = [&](const terrace::options& how) {
        return time_of([&] { terrace::mpi::create(MPI_COMM_WORLD, terrace::plan::load(plan_file), how); });
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
    if (argc != 2) {
        std::fprintf(stderr, "usage: creation-cost PLAN\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    try {
        print_costs(argv[1]);
    } catch (const terrace::error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
