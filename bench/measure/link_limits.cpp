#include "bench/measure/link_limits.hpp"

#include <algorithm>
#include <limits>

#include "planner/link_rows.hpp"
#include "planner/planner.hpp"
#include "planner/policy.hpp"

namespace terrace::detail::bench {

namespace {

// Below, the bytes that bursts let through are too large a part to say anything.
// Not 2 MiB: sizes of 2 MiB are cut to what ranks can share evenly.
constexpr std::int64_t least_with_burst = 2'000'000;

std::optional<double> percent(double limit, double time) {
    if (limit <= 0 || time <= 0) return {};
    return 100 * limit / time;
}

}  // namespace

link_limits::link_limits(const hierarchy& machine, std::vector<std::optional<double>> measured, std::int64_t burst,
                         std::optional<bus_rates> bus)
    : machine_(machine), measured_(std::move(measured)), burst_(burst), bus_(bus) {}

std::optional<double> link_limits::percent_of_limit(collective what, std::int64_t bytes, double time) const {
    return percent(limit(machine_, bytes, what), time);
}

std::optional<double> link_limits::percent_of_goodput(collective what, std::int64_t bytes, double time) const {
    if (!has_goodput() || (burst_ > 0 && bytes < least_with_burst)) return {};
    const auto rate = [this](int level) { return goodput(level); };
    return percent(limit(machine_, bytes, rate, payload_of_frame * static_cast<double>(burst_), what), time);
}

double link_limits::refill_time(std::int64_t bytes) const {
    if (!has_goodput() || policy.in_a_row(static_cast<double>(bytes), static_cast<double>(burst_))) return 0;
    double slowest = std::numeric_limits<double>::infinity();
    for (int l = 0; l < machine_.depth(); ++l) {
        const level& of = machine_.levels[static_cast<std::size_t>(l)];
        const bool has_nics = !machine_.nics.empty() && l == machine_.node_levels();
        const std::vector<double>& rates = has_nics ? machine_.nics.rates : of.rates;
        if (of.medium != fabric::ethernet) continue;
        slowest = std::min(slowest, rates.empty() ? of.bandwidth : *std::min_element(rates.begin(), rates.end()));
    }
    if (machine_.nics.spine > 0) slowest = std::min(slowest, machine_.nics.spine);
    return static_cast<double>(burst_) / slowest;
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
