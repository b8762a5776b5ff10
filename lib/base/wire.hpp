#pragma once

#include <cstddef>

namespace terrace::detail {

/// Maximum bytes of a segment. Longer messages are cut, and the cost model counts the segments (but NCCL sends messages
/// between GPUs whole). Above 64 KiB (less a header), Open MPI's TCP uses a rendezvous and then carries messages one
/// way at a time. 48 KiB stay clear of that limit, and cost less than 1 % in start-ups on a 1 Gbit/s link.
inline constexpr std::size_t wire_segment = 48 * 1024;

/// The same over UCX, with fewer segments, since UCX carries messages both ways at once at any length. A segment fits
/// into the 256 KiB that UCX sends at a time (UCX_TCP_TX_SEG_SIZE), so none waits for a rendezvous.
inline constexpr std::size_t ucx_segment = 192 * 1024;

/// Maximum number of segments that a lane has in flight in each direction: enough to keep a link busy.
inline constexpr int slots_each_way = 8;

}  // namespace terrace::detail
