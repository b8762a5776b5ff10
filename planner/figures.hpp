#pragma once

#include <cstdint>
#include <vector>

#include "machine/devices.hpp"

namespace terrace::detail {

/// Returns the time to reduce one byte on one rank: gamma [s/B]. From the machine's rate, else planner_policy's.
double reduce_time(const hierarchy& machine) noexcept;

/// Returns the time to read or write one byte: gamma / 3 [s/B], since a reduction reads two bytes and writes one.
double access_time(const hierarchy& machine) noexcept;

/// Returns the time until a rank sees the flag of a peer in shared memory, if level `l` joins both: alpha / 3 [s].
double flag_time(const hierarchy& machine, int l) noexcept;

/// A rate or a time of a level of a machine, or the rate at which its ranks reduce.
struct figure {
    enum class fact : std::uint8_t { bandwidth, latency, overhead, reduction };

    fact what = fact::bandwidth;
    int level = 0;         ///< 0 for the reduction
    double value = 0;      ///< [B/s or s]
    bool assumed = false;  ///< no file gives the value

    bool is_time() const noexcept { return what == fact::latency || what == fact::overhead; }
};

/// Returns the figures of a machine that are above 0, innermost level first, the reduction last. Figures of NCCL and
/// MPI on GPUs (keys `nccl` and `mpi`) are not included.
std::vector<figure> figures_of(const hierarchy& machine);

/// Returns the machine with a figure multiplied by a factor and no longer assumed.
hierarchy with_figure(hierarchy machine, const figure& f, double factor);

}  // namespace terrace::detail
