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
    std::uint64_t steal = 0;  ///< ticks that the hypervisor used for something else
};

/// Parses the text of /proc/stat. Returns nothing if it has no steal time (other systems, old kernels).
std::optional<processor_time> parse_processor_time(const std::string& stat);
/// Returns the current times of this host.
std::optional<processor_time> processor_time_now();

/// Returns the fraction (0 ... 1) of processor time between two readings that the hypervisor took. Nothing if a reading
/// is missing, or if no tick lies between them.
std::optional<double> steal_time_part(const std::optional<processor_time>& before,
                                      const std::optional<processor_time>& after);

/// Returns the rate at which this rank reduces, in pieces as long as the segments of messages [B/s]. Not collective.
double reduction_rate();
/// Returns the lowest such rate of all ranks while all of them reduce [B/s]. Collective.
double shared_reduction_rate(const world& w);

}  // namespace terrace::detail::bench
