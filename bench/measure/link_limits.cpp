#include "bench/measure/link_limits.hpp"

#include <algorithm>

#include "plan/limit.hpp"
#include "planner/figures.hpp"

namespace terrace::detail::bench {

namespace {

// Payload of TCP in an Ethernet frame of 1500 bytes, of the 1514 on the wire (docs/measurements/large-messages.md).
constexpr double payload_of_frame = 1448.0 / 1514.0;

std::optional<double> percent(double limit, double time) {
    if (limit <= 0 || time <= 0) return {};
    return 100 * limit / time;
}

}  // namespace

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
