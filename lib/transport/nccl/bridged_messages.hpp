#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/nccl/device_queues.hpp"
#include "transport/nccl/mpi_bridge.hpp"
#include "transport/network.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// Messages between devices over the host's network, as MPI. A message is copied into memory of the host, which
/// mpi_bridge sends when the queue says so, and the queue waits until the answers have arrived. Where the network
/// accepts addresses of devices on all ranks, nothing is copied.
class bridged_messages final : public stream_messages {
public:
    /// Collective. @param host may go afterwards   @throws as on_all_ranks
    bridged_messages(connection& host, device_queues& on, int queues, const std::vector<int>& callers_rank);
    bridged_messages(const bridged_messages&) = delete;
    bridged_messages& operator=(const bridged_messages&) = delete;
    ~bridged_messages();

    /// True where the network accepts addresses of devices on all ranks.
    bool direct() const noexcept { return direct_; }

    void open(int queue, const call_position& where, std::string_view stage, std::byte* host) noexcept override;
    void send(int peer, const void* from, std::size_t bytes) noexcept override;
    void recv(int peer, void* to, std::size_t bytes) noexcept override;
    void close() noexcept override;

    // As mpi_bridge.
    std::optional<transport_fault> fault() const { return bridge_->fault(); }
    std::string awaited() const { return bridge_->awaited(); }
    void give_up() noexcept { bridge_->give_up(); }

private:
    // A message that is copied from the host to its place once it has arrived.
    struct arrival {
        std::byte *to, *host;
        std::size_t bytes;
    };

    std::optional<transport_fault> make_counters(int queues);
    std::byte* host_place(std::size_t bytes) noexcept;
    void release_counters() noexcept;

    device_queues& on_;
    bool direct_ = false;
    mpi_bridge::counters* counters_ = nullptr;  // by queue
    std::unique_ptr<mpi_bridge> bridge_;
    int queue_ = 0;              // between open() and close()
    std::byte* host_ = nullptr;  // free memory of the host
    std::vector<arrival> arriving_;
};

}  // namespace terrace::detail
