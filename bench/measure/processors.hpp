#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/measure/world.hpp"

namespace terrace::detail::bench {

/// Returns the processor time of all threads of this process so far [s].
double own_processor_seconds();

/// Ticks of all processors of this host since it started, as the kernel counts them.
struct processor_time {
    std::uint64_t all = 0;
    std::uint64_t steal = 0;  ///< in which the host's hypervisor ran something else
};

/// Reads the text of /proc/stat. Nothing if it does not say (other systems, old kernels).
std::optional<processor_time> parse_processor_time(const std::string& stat);
/// Returns the times of this host, now.
std::optional<processor_time> processor_time_now();

/// Part (0 ... 1) of the processors' time between the two that the hypervisor took. Nothing if either is not known, or
/// if no tick lies between.
std::optional<double> steal_time_part(const std::optional<processor_time>& before,
                                      const std::optional<processor_time>& after);

/// Bytes that this rank adds up in a second, piece by piece as messages arrive [B/s]. Not collective.
double reduction_rate();
/// The least of all ranks while all of them add up [B/s]. Collective.
double shared_reduction_rate(const world& w);

}  // namespace terrace::detail::bench
