#include "bench/discover/prober.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <thread>

#include <sched.h>

#include "base/index.hpp"

namespace terrace::detail::bench {

namespace {

using steady = std::chrono::steady_clock;

constexpr int order_tag = 101, result_tag = 102, ping_tag = 103, stream_tag = 104;
constexpr int ping_bytes = 8, pings = 24, fewest_pings = 8, untimed = 4;
constexpr double enough_pinged = 0.05;      // [s]; then the fewest suffice: pings are slow if ranks wait for cores
constexpr double overhead_duration = 0.02;  // [s]
constexpr int stream_slots = 6;             // messages in flight of a stream
constexpr int short_message = 32 << 10, long_message = 1 << 20;
constexpr double usual_duration = 0.07, longest_duration = 2, rough_duration = 0.012;  // [s]
constexpr double warm_up = 0.35;       // part of the duration, in which shapers and windows fill
constexpr int fewest_messages = 12;    // for a rate
constexpr double fast_stream = 0.5e9;  // [B/s]; above it overheads of short messages cost a tenth or more
constexpr int name_length = 256;
constexpr int looks = 4;  // tests per wake-up: an arrived message may need several steps

double since(steady::time_point begin) { return std::chrono::duration<double>(steady::now() - begin).count(); }

// The stream to one rank: all slots in flight until time is up, then a last message in each slot.
class sender {
public:
    sender(communicator& comm, int to, int bytes) : comm_(comm), to_(to), go_(at(bytes)), stop_(at(bytes)) {
        stop_.front() = std::byte{1};
    }
    // Returns true if a message was sent.
    bool step(bool time_is_up) {
        bool moved = false;
        for (request& slot : slots_) {
            if (stops_ == stream_slots || !slot.test()) continue;
            stops_ += time_is_up;
            slot = comm_.send_async(time_is_up ? stop_.data() : go_.data(), static_cast<std::int64_t>(go_.size()),
                                    element_type::uint8, to_, stream_tag);
            moved = true;
        }
        return moved;
    }
    bool done() { return stops_ == stream_slots && std::ranges::all_of(slots_, &request::test); }

private:
    communicator& comm_;
    int to_, stops_ = 0;
    std::vector<std::byte> go_, stop_;
    std::array<request, stream_slots> slots_;
};

// The stream from one rank. Messages arrive in the order sent, so slots complete in turn.
class receiver {
public:
    receiver(communicator& comm, int from, int bytes) : comm_(comm), from_(from) {
        for (std::size_t i = 0; i < stream_slots; ++i) {
            buffers_[i].resize(at(bytes));
            post(i);
        }
    }
    bool step() {
        bool moved = false;
        while (stops_ < stream_slots && slots_[next_].test()) {
            moved = true;
            const bool last = buffers_[next_].front() == std::byte{1};
            if (!last) {
                arrivals_.push_back(steady::now());
                post(next_);
            }
            stops_ += last;
            next_ = (next_ + 1) % stream_slots;
        }
        return moved;
    }
    bool done() const noexcept { return stops_ == stream_slots; }

    // Returns the message rate [1/s] while all streams run, without start and end, and the number of messages counted.
    std::pair<double, int> per_second(double duration) const {
        if (arrivals_.empty()) return {0, 0};
        const auto after = [&](double part) {
            return arrivals_.front() +
                   std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(part * duration));
        };
        // Messages arrive in bursts: time is counted from the end of one burst to the end of another.
        auto first = std::lower_bound(arrivals_.begin(), arrivals_.end(), after(warm_up));
        if (first != arrivals_.begin()) --first;
        const auto last = std::lower_bound(first, arrivals_.end(), after(0.95));
        const auto n = static_cast<int>(last - first);
        if (n < 3) return {static_cast<double>(arrivals_.size()) / duration, n};
        return {(n - 1) / std::chrono::duration<double>(*(last - 1) - *first).count(), n};
    }

private:
    void post(std::size_t i) {
        slots_[i] = comm_.recv_async(buffers_[i].data(), static_cast<std::int64_t>(buffers_[i].size()),
                                     element_type::uint8, from_, stream_tag, nullptr);
    }

    communicator& comm_;
    int from_, stops_ = 0;
    std::size_t next_ = 0;
    std::array<std::vector<std::byte>, stream_slots> buffers_;
    std::array<request, stream_slots> slots_;
    std::vector<steady::time_point> arrivals_;
};

}  // namespace

prober::prober(communicator& comm)
    : comm_(comm), nap_(comm.rank() == 0 ? 200 : std::max(500, 40 * comm.size())) {}  // many ranks wake up less often

// ---- orders ---------------------------------------------------------------------------------------------------------

void prober::receive_asleep(void* into, std::int64_t bytes, int from, int tag) {
    request r = comm_.recv_async(into, bytes, element_type::uint8, from, tag, nullptr);
    while (true) {
        for (int look = 0; look < looks; ++look)
            if (r.test()) return;
        std::this_thread::sleep_for(nap_);
    }
}

// An order is sent as kind, peer, bytes, duration [us], numbers of streams out and in, and their peers.
void prober::send_order(int rank, const order& o) {
    std::vector<std::int32_t> words{static_cast<int>(o.what),
                                    o.peer,
                                    o.message_bytes,
                                    static_cast<int>(o.duration * 1e6),
                                    static_cast<int>(o.to.size()),
                                    static_cast<int>(o.from.size())};
    words.insert(words.end(), o.to.begin(), o.to.end());
    words.insert(words.end(), o.from.begin(), o.from.end());
    comm_.send(words.data(), static_cast<std::int64_t>(words.size() * sizeof(std::int32_t)), element_type::uint8, rank,
               order_tag);
}

void prober::answer() {
    std::vector<std::int32_t> words(at(6 + 2 * comm_.size()));
    while (true) {
        receive_asleep(words.data(), static_cast<std::int64_t>(words.size() * sizeof(std::int32_t)), 0, order_tag);
        order o{static_cast<kind>(words[0]), words[1], words[2], words[3] * 1e-6, {}, {}};
        const auto to = words.begin() + 6, from = to + words[4];
        o.to.assign(to, from);
        o.from.assign(from, from + words[5]);
        if (o.what == kind::finish) return;
        if (o.what == kind::latency) {
            const bool first = o.peer >= 0;
            const double found = ping(first ? o.peer : -o.peer - 1, first);
            if (first) comm_.send(&found, sizeof found, element_type::uint8, 0, result_tag);
            continue;
        }
        const std::vector<rated> found = run(o);
        if (!found.empty())
            comm_.send(found.data(), static_cast<std::int64_t>(found.size() * sizeof(rated)), element_type::uint8, 0,
                       result_tag);
    }
}

// ---- latency --------------------------------------------------------------------------------------------------------

double prober::ping(int peer, bool first) {
    std::array<std::byte, ping_bytes> data{};
    std::vector<double> times;
    const auto first_begin = steady::now();
    constexpr std::byte last{1};  // marks the last message of the first rank, and its answer
    for (int i = 0; data.front() != last; ++i) {
        const auto begin = steady::now();
        if (first && (i + 1 == pings || (i + 1 >= fewest_pings && since(first_begin) > enough_pinged)))
            data.front() = last;
        for (const bool sends : {first, !first}) {
            if (sends) comm_.send(data.data(), data.size(), element_type::uint8, peer, ping_tag);
            else comm_.recv(data.data(), data.size(), element_type::uint8, peer, ping_tag);
        }
        if (i >= untimed) times.push_back(since(begin) / 2);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 4];
}

double prober::latency(int a, int b) {
    const auto tell = [&](int rank, int peer) {
        if (rank != 0) send_order(rank, {kind::latency, peer, 0, 0, {}, {}});
    };
    tell(b, -a - 1);
    tell(a, b);
    if (a == 0) return ping(b, true);
    if (b == 0) ping(a, false);
    double found = 0;
    receive_asleep(&found, sizeof found, a, result_tag);
    return found;
}

double prober::overhead(int a, int b) {
    const std::array<stream, 2> both{stream{a, b}, stream{b, a}};
    double slowest = 0;
    for (const rated& r : all_rates(both, ping_bytes, overhead_duration))
        slowest = std::max(slowest, ping_bytes / std::max(r.rate, 1.0));
    return slowest;
}

// ---- rates ----------------------------------------------------------------------------------------------------------

std::vector<prober::rated> prober::run(const order& o) {
    std::deque<sender> senders;
    std::deque<receiver> receivers;
    for (const int from : o.from) receivers.emplace_back(comm_, from, o.message_bytes);
    for (const int to : o.to) senders.emplace_back(comm_, to, o.message_bytes);
    const auto begin = steady::now();
    while (!std::ranges::all_of(senders, &sender::done) || !std::ranges::all_of(receivers, &receiver::done)) {
        bool moved = false;
        const bool time_is_up = since(begin) > o.duration;
        for (receiver& r : receivers) moved = r.step() || moved;
        for (sender& s : senders) moved = s.step(time_is_up) || moved;
        if (!moved) sched_yield();
    }
    std::vector<rated> found;
    for (const receiver& r : receivers) {
        const auto [messages, counted] = r.per_second(o.duration);
        found.push_back({messages * o.message_bytes, counted});
    }
    return found;
}

std::vector<prober::rated> prober::all_rates(std::span<const stream> all, int message_bytes, double duration) {
    std::map<int, order> orders;
    for (const stream& s : all) {
        for (const int rank : {s.from, s.to})
            orders.try_emplace(rank, order{kind::rates, 0, message_bytes, duration, {}, {}});
        orders[s.from].to.push_back(s.to);
        orders[s.to].from.push_back(s.from);
    }
    for (const auto& [rank, o] : orders)
        if (rank != 0) send_order(rank, o);
    std::map<int, std::vector<rated>> results;
    if (const auto own = orders.find(0); own != orders.end()) results[0] = run(own->second);
    for (const auto& [rank, o] : orders) {
        if (rank == 0 || o.from.empty()) continue;
        results[rank].resize(o.from.size());
        receive_asleep(results[rank].data(), static_cast<std::int64_t>(o.from.size() * sizeof(rated)), rank,
                       result_tag);
    }
    std::map<int, std::size_t> next;
    std::vector<rated> found;
    for (const stream& s : all) found.push_back(results[s.to][next[s.to]++]);
    return found;
}

double prober::rough_rate(const stream& self) {
    return std::max(all_rates(std::span(&self, 1), short_message, rough_duration).front().rate, 1.0);
}

std::vector<double> prober::rates(std::span<const stream> all) {
    int bytes = short_message;
    double duration = usual_duration;
    while (true) {
        const std::vector<rated> found = all_rates(all, bytes, duration);
        const auto [least, most] = std::ranges::minmax_element(found, {}, &rated::rate);
        if (bytes == short_message && most->rate > fast_stream) bytes = long_message;
        else if (least->messages < fewest_messages && duration < longest_duration) duration *= 3;
        else {
            std::vector<double> rates;
            for (const rated& r : found) rates.push_back(std::max(r.rate, 1.0));
            return rates;
        }
    }
}

// ---- names ----------------------------------------------------------------------------------------------------------

std::vector<std::string> prober::names(communicator& comm, const std::string& own) {
    std::array<char, name_length> mine{};
    own.copy(mine.data(), mine.size() - 1);
    std::vector<char> all(at(name_length * comm.size()));
    comm.allgather(mine.data(), all.data(), name_length, element_type::uint8);
    std::vector<std::string> found;
    for (int r = 0; r < comm.size(); ++r) found.emplace_back(all.data() + r * name_length);
    return found;
}

}  // namespace terrace::detail::bench
