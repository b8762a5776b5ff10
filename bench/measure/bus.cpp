#include "bench/measure/bus.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "bench/report/figures.hpp"

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

}  // namespace terrace::detail::bench
