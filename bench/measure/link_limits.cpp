#include "bench/measure/link_limits.hpp"

#include <algorithm>
#include <memory>

#include "bench/report/figures.hpp"
#include "plan/limit.hpp"
#include "planner/figures.hpp"

namespace terrace::detail::bench {

namespace {

constexpr std::size_t copied = std::size_t{32} << 20;  // [bytes] per direction
constexpr int copies = 7;

// Copies in one direction between a device buffer and a host buffer, in a stream of its own.
class one_way {
public:
    // @param in true: from the device to the host
    one_way(const gpu& on, bool in)
        : gpu_(on),
          stream_(on.make_stream()),
          watch_(on, stream_.get()),
          from_(in ? on.allocate(copied) : on.allocate_pinned(copied)),
          to_(in ? on.allocate_pinned(copied) : on.allocate(copied)) {}

    void start() const {
        watch_.start();
        gpu_.check(gpu_.runtime().copy(to_.get(), from_.get(), copied, stream_.get()), "cudaMemcpyAsync");
        watch_.stop();
    }

    // Waits for the started copy, and returns its time [s].
    double time() const {
        for (bool done = false; !done;) gpu_.check(gpu_.runtime().stream_done(stream_.get(), &done), "cudaStreamQuery");
        return watch_.seconds();
    }

private:
    const gpu& gpu_;
    std::shared_ptr<CUstream_st> stream_;
    stopwatch watch_;
    std::shared_ptr<std::byte> from_, to_;
};

// TCP payload of a 1500-byte Ethernet frame over its 1514 bytes on the wire (docs/measurements/large-messages.md).
constexpr double payload_of_frame = 1448.0 / 1514.0;

std::optional<double> percent(double limit, double time) {
    if (limit <= 0 || time <= 0) return {};
    return 100 * limit / time;
}

}  // namespace

bus_rates measure_bus(const world& w, const gpu& on) {
    const one_way from_device(on, true), to_device(on, false);
    // Returns the rate by the median over copies of the maximum over ranks.
    const auto rate = [&](bool in, bool out) {
        std::vector<double> times;
        for (int n = -1; n < copies; ++n) {
            w.barrier();
            if (in) from_device.start();
            if (out) to_device.start();
            const double t = w.maximum(std::max(in ? from_device.time() : 0, out ? to_device.time() : 0));
            if (n >= 0) times.push_back(t);
        }
        return static_cast<double>(copied) * (in && out ? 2 : 1) / std::max(quantile(times, 0.5), 1e-9);
    };
    return {.in = rate(true, false), .out = rate(false, true), .both = rate(true, true)};
}

double bus_limit(const bus_rates& bus, collective what, std::int64_t bytes, int ranks) {
    const auto all = static_cast<double>(bytes), block = all / ranks;
    const double in = row_of(what).gives_own_block() ? block : all, out = row_of(what).gets_own_block() ? block : all;
    if (what == collective::broadcast) return std::max(in / bus.in, out / bus.out);  // no rank does both
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
