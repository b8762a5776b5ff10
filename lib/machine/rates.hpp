#pragma once

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The table of the rates that a file does not give, by fabric; documented in docs/reference/topology-files.md.
struct rates {
    double bandwidth;  // [B/s]
    double latency;    // [s]
    double overhead;   // [s]
};
rates default_rates(fabric f) noexcept;

/// Returns the bytes that a message adds on a link. Over Ethernet these are headers of TCP and MPI, and TCP's
/// acknowledgement of a message in the other direction (docs/measurements/random-clusters.md). On other fabrics the
/// overhead of a message is far longer than a header.
constexpr double header_of(fabric f) noexcept { return f == fabric::ethernet ? 128 : 0; }

/// Returns a level with the rates of the table, all marked assumed.
level usual_level(std::string name, fabric medium);

/// Divides measured times of short messages between latency and overhead. A single message costs `half_round_trip` [s];
/// each end accounts for at most half of it. In a stream a message costs `behind_others` [s]: the overhead, or the
/// header of the message before it. The level must have its bandwidth.
void set_message_times(level& l, double half_round_trip, double behind_others) noexcept;

/// Returns the rates of a level's links for buffers on GPUs, with missing values assumed
/// (docs/reference/topology-files.md). A step of NCCL costs the level's latency if the file has no rates of NCCL.
device_rates nccl_rates(const level& l) noexcept;
device_rates mpi_rates(const level& l) noexcept;

}  // namespace terrace::detail
