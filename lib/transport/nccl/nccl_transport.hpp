#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/nccl/gpu_runtime.hpp"
#include "transport/network.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// The device of a transport, and the groups that it is to know.
struct nccl_setting {
    int device = 0;
    /// Ranks by position of groups that NCCL runs collectives of; those of one round have no ranks in common.
    std::vector<std::vector<std::vector<int>>> rounds;
    int ways = 1;  ///< for messages: one per stage, so that those of one do not hold up those of another
    int queues = 1;
    std::chrono::duration<double> timeout{};  ///< of creation and of each call; 0: none
    bool mpi = false;                         ///< whether any stage goes over MPI
    std::vector<int> callers_rank{};          ///< by rank: what messages to people call it
    std::string host{};                       ///< what NCCL_HOSTID makes this rank's host; empty: its node
};

/// Stages and messages over NCCL, and messages over MPI, between the devices of `host`'s ranks, one each. Collective
/// over `host`, by which ranks find each other, and which may go afterwards.
///
/// Everything is issued by the thread that calls, in one order on all ranks: each communicator is used in that order,
/// whatever the queue, and so no two of them can wait for each other. A thread of its own watches: where a communicator
/// reports an error, or a call takes longer than the timeout, all are aborted, so that nothing hangs. What goes over
/// MPI another thread sends and receives when the stream says that it is there, and the stream waits until it is
/// through.
/// @throws transport_error on all ranks, naming the one that cannot, and timeout_error
std::unique_ptr<stream_transport> make_nccl_transport(const gpu_runtime& gpu, connection& host, nccl_setting s);

}  // namespace terrace::detail
