#pragma once

#include <cstdint>
#include <vector>

#include "machine/devices.hpp"

namespace terrace::detail {

/// Time to add one byte to an accumulator on one rank: gamma [s/B]. The machine's own rate, or planner_policy's.
double reduce_time(const hierarchy& machine) noexcept;

/// Time to read or write one byte: gamma / 3 [s/B], since a reduction reads two and writes one.
double access_time(const hierarchy& machine) noexcept;

/// Time until a rank sees the flag of a peer that it meets at level `l`, in memory that they share [s]: alpha / 3.
double flag_time(const hierarchy& machine, int l) noexcept;

/// A rate or a time of a machine: of a level, or the rate at which ranks add up.
struct figure {
    enum class fact : std::uint8_t { bandwidth, latency, overhead, reduction };

    fact what = fact::bandwidth;
    int level = 0;         ///< 0 for the reduction
    double value = 0;      ///< [B/s or s]
    bool assumed = false;  ///< no file gave it

    bool is_time() const noexcept { return what == fact::latency || what == fact::overhead; }
};

/// The figures of a machine that are above 0, innermost level first, the reduction last. Those of NCCL and MPI on GPUs
/// (keys `nccl` and `mpi`) are not among them.
std::vector<figure> figures_of(const hierarchy& machine);

/// The machine if a figure of it is so many times as large, and assumed no longer.
hierarchy with_figure(hierarchy machine, const figure& f, double factor);

}  // namespace terrace::detail
