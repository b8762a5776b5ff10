// What a group of small allreduces costs beside one of as many bytes, and beside the same calls without a group:
// medians by turns.
//
//   mpirun -np N group-cost PLAN [CALLS BYTES]

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "bench/cost_program.hpp"

namespace {

using namespace terrace::detail::bench;

constexpr int turns = 501;

void print_costs(const char* plan_file, std::size_t calls, std::size_t bytes) {
    terrace::communicator comm = on_any_machine(plan_file);
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> whole(calls * count);
    std::vector<std::vector<float>> small(calls, std::vector<float>(count));
    std::vector<terrace::request> requests;
    const auto start_all = [&] {
        for (auto& each : small) requests.push_back(comm.allreduce_async(each));
    };
    const auto wait = [&] {
        wait_all(requests);
        requests.clear();
    };
    std::array<std::vector<double>, 3> times;
    for (int turn = 0; turn < turns; ++turn) {
        times[0].push_back(time_of([&] { comm.allreduce(whole); }));
        times[1].push_back(time_of([&] {
            comm.group_start();
            start_all();
            comm.group_end();
            wait();
        }));
        times[2].push_back(time_of([&] {
            start_all();
            wait();
        }));
    }
    if (comm.rank() != 0) return;
    std::printf("allreduces of %d ranks, us: median of %d, the slowest rank's, and over the first\n", comm.size(),
                turns);
    const std::array<std::string, 3> names{"one of " + std::to_string(calls * bytes) + " bytes",
                                           std::to_string(calls) + " of " + std::to_string(bytes) + " in a group",
                                           "the same, no group"};
    for (std::size_t i = 0; i < names.size(); ++i)
        std::printf("%-24s %9.2f %6.2f\n", names[i].c_str(), median(times[i]) * 1e6,
                    median(times[i]) / median(times[0]));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const auto number = [&](int i, int usual) {
        return static_cast<std::size_t>(std::max(argc > i ? std::atoi(argv[i]) : usual, 4));
    };
    return run_cost_program(argc == 2 || argc == 4, "group-cost PLAN [CALLS BYTES]",
                            [&] { print_costs(argv[1], number(2, 64), number(3, 1024)); });
}
