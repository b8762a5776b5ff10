// What options::threads = any costs: a caller that is alone, beside one of a communicator for one thread; and two
// threads of a rank that wake each other by messages, beside two that do so by a futex and nothing else. Medians by
// turns.
//
//   mpirun -np N thread-cost PLAN

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mpi.h>

#include <terrace/mpi.hpp>

#include "bench/cost_program.hpp"

namespace {

using namespace terrace::detail::bench;

constexpr int turns = 301, in_a_row = 50;

// Returns the time of one of several hand-overs in a row between two threads [s]. @param pass(t) hands over to the
// other thread; wait(t) returns when that one has handed over
template <class Pass, class Wait>
double hand_over(Pass pass, Wait wait) {
    const auto start = std::chrono::steady_clock::now();
    std::jthread other([&] {
        for (int i = 0; i < in_a_row; ++i) {
            wait(1);
            pass(1);
        }
    });
    for (int i = 0; i < in_a_row; ++i) {
        pass(0);
        wait(0);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return seconds.count() / (2 * in_a_row);
}

double futex_hand_over() {
    std::array<std::atomic<int>, 2> passed{};
    const auto call = [](std::atomic<int>& word, int operation, int value) {
        syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
    };
    return hand_over(
        [&](int t) {
            passed[static_cast<std::size_t>(t)] = 1;
            call(passed[static_cast<std::size_t>(t)], FUTEX_WAKE_PRIVATE, 1);
        },
        [&](int t) {
            std::atomic<int>& word = passed[static_cast<std::size_t>(1 - t)];
            while (word.exchange(0) == 0) call(word, FUTEX_WAIT_PRIVATE, 0);
        });
}

double message_hand_over(terrace::communicator& comm) {
    std::array<std::array<int, 1>, 2> balls{};
    return hand_over([&](int t) { comm.send(balls[static_cast<std::size_t>(t)], comm.rank(), t); },
                     [&](int t) { comm.recv(balls[static_cast<std::size_t>(t)], comm.rank(), 1 - t); });
}

void print_costs(const char* plan_file) {
    const terrace::plan plan = terrace::plan::load(plan_file);
    terrace::options o;
    o.place = terrace::options::placement::anywhere;
    terrace::communicator one = terrace::mpi::create(MPI_COMM_WORLD, plan, o);
    o.threads = terrace::options::threading::any;
    terrace::communicator any = terrace::mpi::create(MPI_COMM_WORLD, plan, o);
    std::vector<float> data(2);
    std::array<std::vector<double>, 4> times;
    std::vector<double> differences;
    for (int turn = 0; turn < turns; ++turn) {
        times[0].push_back(time_of([&] { one.allreduce(data); }, in_a_row));
        times[1].push_back(time_of([&] { any.allreduce(data); }, in_a_row));
        differences.push_back(times[1].back() - times[0].back());
        if (any.rank() != 0) continue;
        times[2].push_back(message_hand_over(any));
        times[3].push_back(futex_hand_over());
    }
    if (any.rank() != 0) return;
    std::printf("allreduce of 8 bytes on %d ranks, us: median of %d, the slowest rank's\n", any.size(), turns);
    std::printf("  threads = serialized     %9.3f\n  threads = any, alone     %9.3f\n", median(times[0]) * 1e6,
                median(times[1]) * 1e6);
    std::printf("  any takes longer by      %9.3f\n", median(differences) * 1e6);
    std::printf("one thread of a rank wakes another, us: median of %d\n", turns);
    std::printf("  by a message             %9.3f\n  by a futex alone         %9.3f\n", median(times[2]) * 1e6,
                median(times[3]) * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
    int given = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    return run_cost_program(argc == 2, "thread-cost PLAN", [&] { print_costs(argv[1]); });
}
