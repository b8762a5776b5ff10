#pragma once

#include <cstdint>

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

}  // namespace terrace::detail::bench
