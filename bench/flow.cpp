#include "bench/flow.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

namespace terrace::bench {

namespace {

constexpr int window = 8;  // messages in flight
constexpr int runs = 3;
constexpr int tag = 0;

using steady = std::chrono::steady_clock;

}  // namespace

std::vector<int> ranks_by_place(const world& w, options::placement place) {
    std::vector<int> ranks(static_cast<std::size_t>(w.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (place == options::placement::by_node)
        std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
            return w.hosts()[static_cast<std::size_t>(a)] < w.hosts()[static_cast<std::size_t>(b)];
        });
    return ranks;
}

double time_of_message(const world& w, const flow& f) {
    const auto bytes = static_cast<std::size_t>(f.message_bytes);
    const std::vector<std::byte> sent(bytes);
    std::vector<std::byte> received(bytes * window);
    std::array<MPI_Request, window> sends, receives;
    std::vector<steady::time_point> ends;
    const int all = f.messages * (runs + 1);
    for (int i = 0; i < all + window; ++i) {  // they complete in order
        const auto slot = static_cast<std::size_t>(i % window);
        if (i >= window) {
            check(MPI_Wait(&receives[slot], MPI_STATUS_IGNORE), "MPI_Wait");
            if ((i - window + 1) % f.messages == 0) ends.push_back(steady::now());
            check(MPI_Wait(&sends[slot], MPI_STATUS_IGNORE), "MPI_Wait");
        }
        if (i >= all) continue;
        check(MPI_Irecv(received.data() + slot * bytes, f.message_bytes, MPI_BYTE, f.from, tag, w.comm(),
                        &receives[slot]), "MPI_Irecv");
        check(MPI_Isend(sent.data(), f.message_bytes, MPI_BYTE, f.to, tag, w.comm(), &sends[slot]), "MPI_Isend");
    }
    if (f.from == MPI_PROC_NULL) return 0;
    std::array<double, runs> times;
    for (std::size_t i = 0; i < times.size(); ++i)
        times[i] = std::chrono::duration<double>(ends[i + 1] - ends[i]).count();
    std::sort(times.begin(), times.end());
    return times[runs / 2] / f.messages;
}

void wait_asleep(const world& w) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(w.comm(), &request), "MPI_Ibarrier");
    for (int done = 0; !done;) {
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace terrace::bench
