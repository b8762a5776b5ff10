// What comparing calls between ranks costs: medians of a small allreduce at each level of options::check, by turns.
// With --failures what looking for failures costs: without and with options::failure_timeout.
//
//   mpirun -np 8 check-cost [--failures] PLAN [BYTES ...]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

namespace {

using namespace terrace;

using namespace terrace::detail;

constexpr int turns = 301;

struct level {
    const char* name;
    options how;
};

std::vector<level> levels_of(bool failures) {
    options o;
    o.place = options::placement::anywhere;
    std::vector<level> all;
    if (failures) {
        for (const auto& [name, seconds] : {std::pair("off", 0), std::pair("10 s", 10)}) {
            o.failure_timeout = std::chrono::seconds(seconds);
            all.push_back({name, o});
        }
        return all;
    }
    for (const auto& [name, check] :
         {std::pair("off", options::checking::off), std::pair("first", options::checking::first),
          std::pair("every", options::checking::every)}) {
        o.check = check;
        all.push_back({name, o});
    }
    return all;
}

struct measured {
    double first_call = 0, median = 0;  // [s], of the slowest rank
};

double slowest(double seconds) {
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

std::vector<measured> measure(std::vector<communicator>& by_level, std::size_t bytes) {
    std::vector<float> data(std::max<std::size_t>(bytes / sizeof(float), 1));
    std::vector<std::vector<double>> times(by_level.size());
    for (int turn = 0; turn < turns; ++turn)
        for (std::size_t l = 0; l < by_level.size(); ++l) {
            MPI_Barrier(MPI_COMM_WORLD);
            const double start = MPI_Wtime();
            by_level[l].allreduce(std::span(data));
            times[l].push_back(slowest(MPI_Wtime() - start));
        }
    std::vector<measured> result(by_level.size());
    for (std::size_t l = 0; l < by_level.size(); ++l) {
        result[l].first_call = times[l].front();
        const auto middle = times[l].begin() + turns / 2;
        std::nth_element(times[l].begin(), middle, times[l].end());
        result[l].median = *middle;
    }
    return result;
}

void print_costs(bool failures, const char* plan_file, const std::vector<std::size_t>& sizes) {
    const plan p = plan::load(plan_file);
    std::vector<communicator> by_level;
    for (const level& l : levels_of(failures)) by_level.push_back(mpi::create(MPI_COMM_WORLD, p, l.how));
    const bool prints = by_level.front().rank() == 0;
    if (prints) {
        std::printf("allreduce over %d ranks, us: median of %d calls (first call), the slowest rank's, by %s\n%10s",
                    p.ranks(), turns, failures ? "failure timeout" : "check level", "bytes");
        for (const level& l : levels_of(failures)) std::printf(" %20s", l.name);
        std::printf("\n");
    }
    for (const std::size_t bytes : sizes) {
        const std::vector<measured> m = measure(by_level, bytes);
        if (!prints) continue;
        std::printf("%10zu", bytes);
        for (const measured& each : m) std::printf(" %9.2f (%8.1f)", each.median * 1e6, each.first_call * 1e6);
        std::printf("\n");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const bool failures = argc > 1 && std::string_view(argv[1]) == "--failures";
    const int file = failures ? 2 : 1;
    if (argc <= file) {
        std::fprintf(stderr, "usage: check-cost [--failures] PLAN [BYTES ...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    std::vector<std::size_t> sizes;
    for (int i = file + 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes.empty()) sizes = {8, 4096, 65536, 1048576};
    try {
        print_costs(failures, argv[file], sizes);
    } catch (const error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
