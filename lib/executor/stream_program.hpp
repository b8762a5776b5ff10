#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "schedule/block_steps.hpp"
#include "schedule/chunk_order.hpp"
#include "schedule/schedule.hpp"
#include "schedule/slice.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// Schedule in the order in which it is put into a queue. Each step consists of local instructions before its messages,
/// the messages as one group, reductions of received data, stages that the network runs, and the other local
/// instructions. A queue runs its entries in order, which satisfies all dependencies.
struct queued {
    enum class kind : std::uint8_t { local, open, message, close, stage, received };
    struct entry {
        kind what;
        std::uint32_t instruction = 0;
        std::size_t staging = 0;  ///< offset in the lane's staging memory [elements], for recv_reduce
    };

    /// @param over_mpi by stage: name of the stage if its messages go over MPI, else empty
    queued(schedule s, const std::vector<std::string>& over_mpi);

    schedule code;
    std::vector<entry> entries;
    std::vector<std::size_t> first;  ///< by pipeline slot (stages up, then down): its first entry; then the end
    std::int64_t staging = 0;        ///< elements of staging memory
    std::int64_t hosted = 0;         ///< elements of host memory, for the messages of one step over MPI
};

/// Executable form of calls of one shape with device buffers, made once and put into the device's queues many times.
///
/// A lane is a queue, and runs the chunks that chunk_order assigns to it. A chunk passes its pipeline slots in order:
/// stages up, then down. Instructions are issued over all queues in waves. In each wave every chunk in flight advances
/// by one slot, older chunks first, and one more chunk begins if a lane is free. This order depends only on the numbers
/// of chunks, lanes and stages, so it is the same on all ranks, and for all communicators of the libraries below.
class stream_program {
public:
    struct shape {
        element_type type = element_type::float32;
        reduce_op op = reduce_op::sum;
        int divisor = 1;  ///< for elements that are reduced over all ranks
        slicing chunks;
        block_steps steps = {};
        int lanes = 1;
        std::vector<std::string> over_mpi;  ///< by stage of the plan's rule, as in `queued`

        int stages() const noexcept { return static_cast<int>(over_mpi.size()); }
    };

    /// @param full, tail lowered schedules of a chunk and of the last chunk (only `tail` is used if there is one chunk)
    stream_program(schedule full, schedule tail, const shape& s, stream_transport& net);

    int lanes() const noexcept { return shape_.lanes; }
    /// Returns the approximate size of the instructions, and of the memory on the device and on the host [bytes].
    std::size_t bytes() const noexcept { return full_.code.bytes() + tail_.code.bytes() + memory_.bytes(shape_.lanes); }
    /// Puts a call into the transport's queues, between its begin() and end().
    void enqueue(const void* send, void* recv) noexcept;

private:
    // Memory of all queues: scratch and staging memory on the device, and memory of the host.
    struct queue_memory {
        std::size_t scratch_bytes = 0, device_bytes = 0, host_bytes = 0;  // per queue; device_bytes includes scratch
        std::shared_ptr<std::byte> device, host;

        std::size_t bytes(int queues) const noexcept { return at(queues) * (device_bytes + host_bytes); }
        std::byte* scratch(int queue) const noexcept { return device.get() + at(queue) * device_bytes; }
        std::byte* staging(int queue) const noexcept { return scratch(queue) + scratch_bytes; }
        std::byte* of_host(int queue) const noexcept { return host ? host.get() + at(queue) * host_bytes : nullptr; }
    };

    void run_slot(std::int64_t chunk, int pipeline_slot, const void* send, void* recv) noexcept;
    void run(const queued& q, const queued::entry& e, std::int64_t chunk, int queue) noexcept;
    void run_stage(const queued& q, const instr& i, std::int64_t chunk, int queue) noexcept;
    std::byte* address(const operand& o, int queue) const noexcept;
    std::byte* staging(const queued::entry& e, int queue) const noexcept {
        return memory_.staging(queue) + e.staging * element_;
    }
    void open(const call_position& where, int queue) noexcept {
        const std::string& over_mpi = shape_.over_mpi[at(where.stage)];
        open_ = over_mpi.empty() ? &net_.over_nccl() : &net_.over_mpi();
        open_->open(queue, where, over_mpi, memory_.of_host(queue));
    }
    std::size_t bytes_of(range part) const noexcept { return static_cast<std::size_t>(part.count()) * element_; }

    stream_transport& net_;
    stream_messages* open_ = nullptr;  // messages of the current step
    shape shape_;
    std::size_t element_;
    queued full_, tail_;
    queue_memory memory_;
    std::vector<const void*> inputs_;
    std::vector<std::int64_t> begun_;  // by lane: the wave in which its chunk began
    // Current chunk, and its place in the caller's buffers.
    struct {
        std::int64_t number = 0;
        std::byte *send = nullptr, *recv = nullptr;
    } chunk_;
};

}  // namespace terrace::detail
