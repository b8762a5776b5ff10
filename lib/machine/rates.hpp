#pragma once

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The one table of rates, per fabric, for what a file does not say; documented in docs/reference/topology-files.md.
struct rates {
    double bandwidth;  // [B/s]
    double latency;    // [s]
    double overhead;   // [s]
    double header;     // of a message, with the acknowledgement of one that comes the other way [B]; no file says it
};
rates default_rates(fabric f) noexcept;
/// Returns a level with these rates, all assumed.
level usual_level(std::string name, fabric medium);

/// What a level's links take for buffers on GPUs, with what its file leaves out assumed
/// (docs/reference/topology-files.md). NCCL's steps take the level's latency where the file does not speak of NCCL.
device_rates nccl_rates(const level& l) noexcept;
device_rates mpi_rates(const level& l) noexcept;

}  // namespace terrace::detail
