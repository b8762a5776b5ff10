#pragma once

#include <cstdint>
#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

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

/// Those of them that no file gave.
std::vector<figure> assumed_figures(const hierarchy& machine);

/// The machine if a figure of it is so many times as large, and assumed no longer.
hierarchy with_figure(hierarchy machine, const figure& f, double factor);

}  // namespace terrace::detail
