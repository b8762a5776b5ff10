#include "bench/measure/flow.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/index.hpp"
#include "bench/measure/mpi_world.hpp"

namespace terrace::detail::bench {

namespace {

constexpr int window = 8;  // messages in flight
constexpr int runs = 3;
constexpr int tag = 0;

using steady = std::chrono::steady_clock;

int for_mpi(int rank) { return rank == no_rank ? MPI_PROC_NULL : rank; }

}  // namespace

std::vector<double> arrivals(const world& w, const flow& f, pace sends_at) {
    const auto bytes = static_cast<std::size_t>(f.message_bytes);
    const std::vector<std::byte> sent(bytes);
    std::vector<std::byte> received(bytes * window);
    std::array<MPI_Request, window> sends, receives;
    const int all = f.messages * (runs + 1);
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(all));
    const auto slot = [](int n) { return static_cast<std::size_t>(n % window); };
    const auto begin = steady::now();
    int receives_begun = 0, sends_begun = 0, sends_done = 0;
    while (true) {  // messages of one direction complete in order
        const int arrived = static_cast<int>(times.size());
        for (; receives_begun < std::min(all, arrived + window); ++receives_begun)
            check(MPI_Irecv(received.data() + slot(receives_begun) * bytes, f.message_bytes, MPI_BYTE, for_mpi(f.from),
                            tag, comm_of(w), &receives[slot(receives_begun)]),
                  "MPI_Irecv");
        const int others = sends_at == pace::of_receives ? arrived : all;
        for (; sends_begun < std::min({all, sends_done + window, others + window}); ++sends_begun)
            check(MPI_Isend(sent.data(), f.message_bytes, MPI_BYTE, for_mpi(f.to), tag, comm_of(w),
                            &sends[slot(sends_begun)]),
                  "MPI_Isend");
        if (arrived == all && sends_done == all) break;
        std::array next{arrived < receives_begun ? receives[slot(arrived)] : MPI_REQUEST_NULL,
                        sends_done < sends_begun ? sends[slot(sends_done)] : MPI_REQUEST_NULL};
        int which = 0;
        check(MPI_Waitany(static_cast<int>(next.size()), next.data(), &which, MPI_STATUS_IGNORE), "MPI_Waitany");
        if (which == 0) times.push_back(std::chrono::duration<double>(steady::now() - begin).count());
        else ++sends_done;
    }
    if (f.from == no_rank) times.clear();
    return times;
}

double time_of_message(const world& w, const flow& f) {
    const std::vector<double> ends = arrivals(w, f, pace::of_receives);
    if (ends.empty()) return 0;
    std::array<double, runs> times;
    for (std::size_t i = 0; i < times.size(); ++i) {
        const auto last = static_cast<std::size_t>(f.messages) * (i + 2) - 1;
        times[i] = ends[last] - ends[last - static_cast<std::size_t>(f.messages)];
    }
    std::sort(times.begin(), times.end());
    return times[runs / 2] / f.messages;
}

double arrival_rate(std::span<const double> times, double end) {
    constexpr int quarters = 4;
    const auto arrived = [&](int quarter) {
        return static_cast<std::size_t>(std::ranges::upper_bound(times, end * quarter / quarters) - times.begin());
    };
    std::array<double, quarters - 1> rates{};
    for (int i = 1; i < quarters; ++i) {
        const std::size_t before = arrived(i), after = arrived(i + 1);
        if (after == before) continue;
        const double begin = before > 0 ? times[before - 1] : 0;
        rates[at(i - 1)] = static_cast<double>(after - before) / (times[after - 1] - begin);
    }
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
}

void wait_asleep(const world& w) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm_of(w), &request), "MPI_Ibarrier");
    for (int done = 0; !done;) {
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace terrace::detail::bench
