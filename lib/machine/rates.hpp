#pragma once

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The one table of rates for what a file does not say, per fabric; documented in docs/reference/topology-files.md.
struct rates {
    double bandwidth;  // [B/s]
    double latency;    // [s]
    double overhead;   // [s]
};
rates default_rates(fabric f) noexcept;

/// Returns the bytes that a message adds on a link: over Ethernet the headers of TCP and MPI, and TCP's acknowledgement
/// of a message that goes the other way (docs/measurements/random-clusters.md). On other fabrics the overhead of a
/// message is longer by far.
constexpr double header_of(fabric f) noexcept { return f == fabric::ethernet ? 128 : 0; }

/// Returns a level with these rates, all assumed.
level usual_level(std::string name, fabric medium);

/// Divides the measured times of short messages between latency and overhead. One that comes alone costs half a round
/// trip [s], of which each end has no more than half. In a stream it takes `behind_others` [s]: the overhead, or the
/// header of the message before. The level has its bandwidth already.
void set_message_times(level& l, double half_round_trip, double behind_others) noexcept;

/// What a level's links take for buffers on GPUs, with what its file leaves out assumed
/// (docs/reference/topology-files.md). NCCL's steps take the level's latency where the file does not speak of NCCL.
device_rates nccl_rates(const level& l) noexcept;
device_rates mpi_rates(const level& l) noexcept;

}  // namespace terrace::detail
