#pragma once

#include <cstddef>

namespace terrace::detail {

/// Transports cut longer messages into pieces of at most this many bytes, and the cost model counts the pieces (but not
/// of NCCL's messages between GPUs, which are whole). Open MPI's TCP turns to a rendezvous at 64 KiB (less a header),
/// and then carries messages one way at a time; 48 KiB keeps clear of that, and costs less than 1 % in start-ups on a 1
/// Gbit/s link.
inline constexpr std::size_t wire_segment = 48 * 1024;

/// The same over UCX, which carries messages both ways at once at any length: fewer pieces. They fit into the 256 KiB
/// that UCX sends at a time (UCX_TCP_TX_SEG_SIZE), so that none of them waits for a rendezvous.
inline constexpr std::size_t ucx_segment = 192 * 1024;

/// So many of them a lane has under way each way: enough to keep a link busy.
inline constexpr int slots_each_way = 8;

}  // namespace terrace::detail
