#include "bench/goodput.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

namespace terrace::bench {

namespace {

constexpr int message_bytes = 48 << 10;  // below the size at which MPI's TCP asks the receiver first
constexpr int window = 8;                // messages in flight
constexpr int runs = 3;
constexpr int tag = 0;

using steady = std::chrono::steady_clock;

// The ranks of the world in the plan's order: nodes by their lowest rank, ranks of a node by rank.
std::vector<int> plan_order(const world& w) {
    std::vector<std::pair<int, int>> order;  // host, rank
    for (int rank = 0; rank < w.size(); ++rank) order.emplace_back(w.hosts()[static_cast<std::size_t>(rank)], rank);
    std::sort(order.begin(), order.end());
    std::vector<int> ranks;
    for (const auto& [host, rank] : order) ranks.push_back(rank);
    return ranks;
}

// Two ranks, in the plan's order, whose nearest common level it is.
std::optional<std::pair<int, int>> pair_across(const tree& shape, int l) {
    for (int d = 0; d < shape.domains(l); ++d)
        if (const int child = shape.first_child(l, d); shape.children(l, d) > 1)
            return std::pair{shape.first_rank(l - 1, child), shape.first_rank(l - 1, child + 1)};
    return {};
}

// Of one run: 16 MiB, or what passes in 0.3 s if that is less.
int messages_of_run(double bandwidth) {
    const double bytes = std::min(16.0 * (1 << 20), 0.3 * bandwidth);
    return std::max(window, static_cast<int>(bytes / message_bytes));
}

// Keeps `window` messages in flight; they complete in order.
template <class Start, class Completed>
void stream(int messages, Start start, Completed completed) {
    std::array<MPI_Request, window> requests;
    for (int i = 0; i < messages + window; ++i) {
        const int slot = i % window;
        MPI_Request& request = requests[static_cast<std::size_t>(slot)];
        if (i >= window) {
            check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
            completed(i - window + 1);
        }
        if (i < messages) start(slot, &request);
    }
}

void send_all(const world& w, int to, int messages) {
    const std::vector<std::byte> data(message_bytes);
    stream(messages,
           [&](int, MPI_Request* request) {
               check(MPI_Isend(data.data(), message_bytes, MPI_BYTE, to, tag, w.comm(), request), "MPI_Isend");
           },
           [](int) {});
}

// Bytes a second, where they arrive. Several runs in one stream without a pause: the first warms up and empties the
// buckets of shapers, and start-ups and acknowledgements do not count.
double receive_all(const world& w, int from, int messages, int messages_of_run) {
    std::vector<std::byte> data(static_cast<std::size_t>(message_bytes) * window);
    std::vector<steady::time_point> ends;
    stream(messages,
           [&](int slot, MPI_Request* request) {
               check(MPI_Irecv(data.data() + static_cast<std::ptrdiff_t>(slot) * message_bytes, message_bytes, MPI_BYTE,
                               from, tag, w.comm(), request), "MPI_Irecv");
           },
           [&](int so_far) {
               if (so_far % messages_of_run == 0) ends.push_back(steady::now());
           });
    std::vector<double> times;
    for (std::size_t i = 1; i < ends.size(); ++i)
        times.push_back(std::chrono::duration<double>(ends[i] - ends[i - 1]).count());
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    return static_cast<double>(messages_of_run) * message_bytes / times[runs / 2];
}

// A barrier that leaves the cores to those who measure.
void wait_asleep(const world& w) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(w.comm(), &request), "MPI_Ibarrier");
    for (int done = 0; !done;) {
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace

std::vector<std::optional<double>> measure_goodput(const world& w, const hierarchy& machine, options::placement place) {
    if (w.host_count() == 1 || place != options::placement::by_node) return {};
    const std::vector<int> order = plan_order(w);
    std::vector<std::optional<double>> found(machine.levels.size());
    for (int l = 0; l < machine.depth(); ++l) {
        const level& link = machine.levels[static_cast<std::size_t>(l)];
        const auto pair = pair_across(machine.shape, l);
        if (link.medium != fabric::ethernet || !pair) continue;
        const int sender = order[static_cast<std::size_t>(pair->first)];
        const int receiver = order[static_cast<std::size_t>(pair->second)];
        const int messages = messages_of_run(link.bandwidth);
        const int total = messages * (runs + 1);
        double rate = 0;
        if (w.rank() == sender) send_all(w, receiver, total);
        if (w.rank() == receiver) rate = receive_all(w, sender, total, messages);
        wait_asleep(w);
        found[static_cast<std::size_t>(l)] = w.maximum(rate);
    }
    return found;
}

}  // namespace terrace::bench
