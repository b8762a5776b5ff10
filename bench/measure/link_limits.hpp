#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/device/gpu.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail::bench {

/// Rates of copies between pinned memory of the host and the device, of the slowest rank while all copy [B/s].
struct bus_rates {
    double in = 0, out = 0;  ///< from the device, and to it
    double both = 0;         ///< of both together, at once
};

/// Collective; some tenths of a second. @throws transport_error
bus_rates measure_bus(const world& w, const gpu& on);

/// The least time that a call of `bytes` takes whose buffers cross the bus once [s]: of the rank that copies most.
double bus_limit(const bus_rates& bus, collective what, std::int64_t bytes, int ranks);

/// What a time is held against: the least that the links of the machine allow a collective made of messages.
class link_limits {
public:
    /// @param measured by level, as from measure_goodput
    /// @param bus where buffers cross it
    link_limits(const hierarchy& machine, std::vector<std::optional<double>> measured,
                std::optional<bus_rates> bus = {});

    /// Limit at the plan's rates over `time` [%]. Nothing if there is nothing to send.
    std::optional<double> percent_of_limit(collective what, std::int64_t bytes, double time) const;
    /// The same at the rates that TCP gets through ethernet links. Nothing without such links.
    std::optional<double> percent_of_goodput(collective what, std::int64_t bytes, double time) const;

    /// The same at the rates at which the bus takes buffers from the device and back. Nothing where they stay there.
    std::optional<double> percent_of_bus(collective what, std::int64_t bytes, double time) const;

    /// A level's rate in percent_of_goodput [B/s]: an ethernet link passes the larger of what was measured and what the
    /// headers leave of full frames; other links have the plan's.
    double goodput(int level) const;
    const std::vector<std::optional<double>>& measured() const noexcept { return measured_; }
    bool has_goodput() const noexcept;
    const std::optional<bus_rates>& bus() const noexcept { return bus_; }
    const hierarchy& machine() const noexcept { return machine_; }

private:
    const hierarchy& machine_;
    std::vector<std::optional<double>> measured_;
    std::optional<bus_rates> bus_;
    hierarchy passed_;  // with the rates of percent_of_goodput
};

}  // namespace terrace::detail::bench
