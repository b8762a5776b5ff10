#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/nccl/gpu_runtime.hpp"
#include "transport/network.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// Settings of a transport: its device, its groups, its timeout.
struct nccl_setting {
    int device = 0;
    /// Groups for NCCL's collectives, as ranks by position. Groups of one round have no ranks in common.
    std::vector<std::vector<std::vector<int>>> rounds;
    int ways = 1;  ///< communicators for messages: one per stage, so stages do not delay each other
    int queues = 1;
    std::chrono::duration<double> timeout{};  ///< of creation and of each call; 0: none
    bool mpi = false;                         ///< true if any stage goes over MPI
    std::vector<int> callers_rank{};          ///< by rank: its number in error messages
    std::string host{};                       ///< the host of this rank by NCCL_HOSTID; empty: its node
};

/// Makes a transport between the devices of `host`'s ranks, one each: stages and messages over NCCL, and messages over
/// MPI. Collective over `host`, by which ranks find each other, and which may end first.
///
/// The calling thread issues all operations, in the same order on all ranks. Each communicator is used in this order,
/// whatever the queue, so no two of them can wait for each other. A second thread watches: if a communicator reports an
/// error, or a call exceeds the timeout, all are aborted, so nothing hangs. A third thread sends and receives messages
/// over MPI when the stream has reached them, and the stream waits until they are complete.
/// @throws transport_error on all ranks, naming the rank that failed, and timeout_error
std::unique_ptr<stream_transport> make_nccl_transport(const gpu_runtime& gpu, connection& host, nccl_setting s);

}  // namespace terrace::detail
