#include "bench/measure/link_limits.hpp"

#include <algorithm>
#include <array>

#include "bench/report/figures.hpp"
#include "plan/limit.hpp"
#include "planner/figures.hpp"

namespace terrace::detail::bench {

namespace {

constexpr std::size_t copied = std::size_t{32} << 20;  // each way
constexpr int copies = 7;

// Two streams, a buffer of the device and one of the host for each.
class ways {
public:
    explicit ways(const gpu& on) : gpu_(on) {
        try {
            for (way& w : ways_) {
                check(r().make_stream(&w.stream), "cudaStreamCreateWithFlags");
                check(r().make_timer(&w.begin), "cudaEventCreate");
                check(r().make_timer(&w.end), "cudaEventCreate");
                check(r().allocate(&w.device, copied), "cudaMalloc");
                check(r().allocate_pinned(&w.host, copied), "cudaMallocHost");
            }
        } catch (...) {
            release();
            throw;
        }
    }
    ways(const ways&) = delete;
    ways& operator=(const ways&) = delete;
    ~ways() { release(); }

    /// Time of one copy each way that is wanted, at once [s].
    double copy(bool in, bool out) {
        const std::array wanted{in, out};
        double longest = 0;
        for (std::size_t i = 0; i < ways_.size(); ++i)
            if (wanted[i]) start(ways_[i], i == 0);
        for (std::size_t i = 0; i < ways_.size(); ++i)
            if (wanted[i]) longest = std::max(longest, time(ways_[i]));
        return longest;
    }

private:
    struct way {
        gpu_stream stream = nullptr;
        gpu_event begin = nullptr, end = nullptr;
        void *device = nullptr, *host = nullptr;
    };

    const gpu_runtime& r() const { return gpu_.runtime(); }
    void check(int code, const char* call) const { gpu_.check(code, call); }

    void start(const way& w, bool in) const {
        check(r().record(w.begin, w.stream), "cudaEventRecord");
        check(r().copy(in ? w.host : w.device, in ? w.device : w.host, copied, w.stream), "cudaMemcpyAsync");
        check(r().record(w.end, w.stream), "cudaEventRecord");
    }

    double time(const way& w) const {
        for (bool done = false; !done;) check(r().stream_done(w.stream, &done), "cudaStreamQuery");
        double seconds = 0;
        check(r().seconds_between(&seconds, w.begin, w.end), "cudaEventElapsedTime");
        return seconds;
    }

    void release() noexcept {
        for (const way& w : ways_) {
            if (w.stream != nullptr) r().drop_stream(w.stream);
            for (const gpu_event e : {w.begin, w.end})
                if (e != nullptr) r().drop_event(e);
            if (w.device != nullptr) r().release(w.device);
            if (w.host != nullptr) r().release_pinned(w.host);
        }
    }

    const gpu& gpu_;
    std::array<way, 2> ways_;
};

// Payload of TCP in an Ethernet frame of 1500 bytes, of the 1514 on the wire (docs/measurements/large-messages.md).
constexpr double payload_of_frame = 1448.0 / 1514.0;

std::optional<double> percent(double limit, double time) {
    if (limit <= 0 || time <= 0) return {};
    return 100 * limit / time;
}

}  // namespace

bus_rates measure_bus(const world& w, const gpu& on) {
    ways all(on);
    // The median over copies of the maximum over ranks.
    const auto rate = [&](bool in, bool out) {
        std::vector<double> times;
        for (int n = -1; n < copies; ++n) {
            w.barrier();
            const double t = w.maximum(all.copy(in, out));
            if (n >= 0) times.push_back(t);
        }
        return static_cast<double>(copied) * (in && out ? 2 : 1) / std::max(quantile(times, 0.5), 1e-9);
    };
    return {.in = rate(true, false), .out = rate(false, true), .both = rate(true, true)};
}

double bus_limit(const bus_rates& bus, collective what, std::int64_t bytes, int ranks) {
    const auto all = static_cast<double>(bytes), block = all / ranks;
    double in = all, out = all;
    switch (what) {
        case collective::reduce_scatter: out = block; break;
        case collective::allgather: in = block; break;
        case collective::broadcast: return std::max(in / bus.in, out / bus.out);  // no rank does both
        case collective::gather: in = block; break;
        case collective::scatter: out = block; break;
        case collective::alltoall:
        case collective::allreduce:
        case collective::reduce: break;
    }
    return std::max({in / bus.in, out / bus.out, (in + out) / bus.both});
}

link_limits::link_limits(const hierarchy& machine, std::vector<std::optional<double>> measured,
                         std::optional<bus_rates> bus)
    : machine_(machine), measured_(std::move(measured)), bus_(bus), passed_(machine) {
    for (int l = 0; l < machine.depth(); ++l) {
        const double rate = machine.levels[static_cast<std::size_t>(l)].bandwidth;
        passed_ = with_figure(std::move(passed_), {figure::fact::bandwidth, l, rate}, goodput(l) / rate);
    }
}

std::optional<double> link_limits::percent_of_limit(collective what, std::int64_t bytes, double time) const {
    return percent(limit(machine_, bytes, what), time);
}

std::optional<double> link_limits::percent_of_goodput(collective what, std::int64_t bytes, double time) const {
    if (!has_goodput()) return {};
    return percent(limit(passed_, bytes, what), time);
}

std::optional<double> link_limits::percent_of_bus(collective what, std::int64_t bytes, double time) const {
    if (!bus_) return {};
    return percent(bus_limit(*bus_, what, bytes, machine_.ranks()), time);
}

double link_limits::goodput(int l) const {
    const level& link = machine_.levels[static_cast<std::size_t>(l)];
    if (link.medium != fabric::ethernet) return link.bandwidth;
    const double measured = has_goodput() ? measured_[static_cast<std::size_t>(l)].value_or(0) : 0;
    return std::max(measured, link.bandwidth * payload_of_frame);
}

bool link_limits::has_goodput() const noexcept {
    return std::any_of(measured_.begin(), measured_.end(), [](const auto& rate) { return rate.has_value(); });
}

}  // namespace terrace::detail::bench
