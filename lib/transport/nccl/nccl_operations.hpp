#pragma once

#include "transport/nccl/device_queues.hpp"
#include "transport/nccl/nccl_comms.hpp"
#include "transport/nccl/operation_log.hpp"
#include "transport/nccl/pending_calls.hpp"
#include "transport/stage_runner.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// Puts NCCL's operations into queues: messages, and stages that NCCL runs as collectives of its own.
class nccl_operations final : public stream_messages {
public:
    nccl_operations(device_queues& on, nccl_comms& comms, operation_log& log, const pending_calls& calls)
        : on_(on), comms_(comms), log_(log), calls_(calls) {}

    void open(int queue, const call_position& where, std::string_view stage, std::byte* host) noexcept override;
    void send(int peer, const void* from, std::size_t bytes) noexcept override;
    void recv(int peer, void* to, std::size_t bytes) noexcept override;
    void close() noexcept override;

    /// stream_transport::stage
    void run_stage(int queue, const call_position& where, const stage_call& c) noexcept;

private:
    void start_collective(const stage_call& c, nccl_comm comm, gpu_stream stream) noexcept;
    void leave(nccl_comms::communicator& c, int queue) noexcept;

    device_queues& on_;
    nccl_comms& comms_;
    operation_log& log_;
    const pending_calls& calls_;
    nccl_comms::communicator* open_ = nullptr;  // between open() and close()
    int queue_ = 0;
};

}  // namespace terrace::detail
