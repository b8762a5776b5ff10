#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/device/gpu.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail::bench {

/// Rates of copies between pinned host memory and the device, at the slowest rank while all ranks copy [B/s].
struct bus_rates {
    double in = 0, out = 0;  ///< from the device, and to it
    double both = 0;         ///< total of both directions at once
};

/// Measures the rates of the bus. Collective; some tenths of a second. @throws transport_error
bus_rates measure_bus(const world& w, const gpu& on);

/// Returns the lower bound of a call whose buffers cross the bus once [s], at the rank that copies most.
double bus_limit(const bus_rates& bus, collective what, std::int64_t bytes, int ranks);

/// Lower bounds of times, which the links of a machine set for a collective made of messages.
class link_limits {
public:
    /// @param measured by level, as from measure_goodput
    /// @param bus rates of the bus, if buffers cross it
    link_limits(const hierarchy& machine, std::vector<std::optional<double>> measured,
                std::optional<bus_rates> bus = {});

    /// Returns the limit at the plan's rates, divided by `time` [%]. Nothing if there is nothing to send.
    std::optional<double> percent_of_limit(collective what, std::int64_t bytes, double time) const;
    /// The same at the rates of TCP on ethernet links. Nothing without such links.
    std::optional<double> percent_of_goodput(collective what, std::int64_t bytes, double time) const;

    /// The same at the rates of the bus (bus_limit). Nothing if buffers do not cross it.
    std::optional<double> percent_of_bus(collective what, std::int64_t bytes, double time) const;

    /// Returns a level's rate in percent_of_goodput [B/s]. An ethernet link has the larger of the measured rate and the
    /// payload rate of full frames; other links have the plan's rate.
    double goodput(int level) const;
    const std::vector<std::optional<double>>& measured() const noexcept { return measured_; }
    bool has_goodput() const noexcept;
    const std::optional<bus_rates>& bus() const noexcept { return bus_; }
    const hierarchy& machine() const noexcept { return machine_; }

private:
    const hierarchy& machine_;
    std::vector<std::optional<double>> measured_;
    std::optional<bus_rates> bus_;
    hierarchy passed_;  // machine_ with the rates of goodput()
};

}  // namespace terrace::detail::bench
