// What comparing calls between ranks costs: medians of a small allreduce at each level of options::check, by turns.
//
//   mpirun -np 8 check-cost PLAN [BYTES ...]

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

namespace {

using namespace terrace;

using namespace terrace::detail;

constexpr int turns = 301;
constexpr std::array levels{options::checking::off, options::checking::first, options::checking::every};

struct measured {
    double first_call = 0, median = 0;  // [s], of the slowest rank
};

double slowest(double seconds) {
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

std::array<measured, 3> measure(std::vector<communicator>& by_level, std::size_t bytes) {
    std::vector<float> data(std::max<std::size_t>(bytes / sizeof(float), 1));
    std::array<std::vector<double>, 3> times;
    for (int turn = 0; turn < turns; ++turn)
        for (std::size_t l = 0; l < levels.size(); ++l) {
            MPI_Barrier(MPI_COMM_WORLD);
            const double start = MPI_Wtime();
            by_level[l].allreduce(std::span(data));
            times[l].push_back(slowest(MPI_Wtime() - start));
        }
    std::array<measured, 3> result;
    for (std::size_t l = 0; l < levels.size(); ++l) {
        result[l].first_call = times[l].front();
        const auto middle = times[l].begin() + turns / 2;
        std::nth_element(times[l].begin(), middle, times[l].end());
        result[l].median = *middle;
    }
    return result;
}

void print_costs(const char* plan_file, const std::vector<std::size_t>& sizes) {
    const plan p = plan::load(plan_file);
    std::vector<communicator> by_level;
    for (const options::checking level : levels) {
        options o;
        o.check = level;
        o.place = options::placement::anywhere;
        by_level.push_back(mpi::create(MPI_COMM_WORLD, p, o));
    }
    const bool prints = by_level.front().rank() == 0;
    if (prints)
        std::printf(
            "allreduce over %d ranks, us: median of %d calls (first call), the slowest rank's, by check level\n"
            "%10s %20s %20s %20s\n",
            p.ranks(), turns, "bytes", "off", "first", "every");
    for (const std::size_t bytes : sizes) {
        const std::array<measured, 3> m = measure(by_level, bytes);
        if (!prints) continue;
        std::printf("%10zu", bytes);
        for (const measured& each : m) std::printf(" %9.1f (%8.1f)", each.median * 1e6, each.first_call * 1e6);
        std::printf("\n");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    if (argc < 2) {
        std::fprintf(stderr, "usage: check-cost PLAN [BYTES ...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    std::vector<std::size_t> sizes;
    for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes.empty()) sizes = {8, 4096, 65536, 1048576};
    try {
        print_costs(argv[1], sizes);
    } catch (const error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
