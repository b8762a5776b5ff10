#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <terrace/types.hpp>

#include "schedule/lower.hpp"
#include "transport/stage_runner.hpp"

struct CUstream_st;

namespace terrace::detail {

/// The position of an operation in a call.
struct call_position {
    int stage = 0;  ///< index of the stage in the plan's rule
    bool down = false;
    int step = 0;
    std::int64_t chunk = 0;
};

/// Messages between devices, added to queues. Messages between open() and close() run together. Between two ranks,
/// messages of a stage arrive in the order sent.
class stream_messages {
public:
    /// @param stage name of the stage for error messages; must live as long as the call   @param host memory of
    /// stream_transport::allocate_host for all of the messages, each on a cache line; null if there is none
    virtual void open(int queue, const call_position& where, std::string_view stage, std::byte* host) noexcept = 0;
    virtual void send(int peer, const void* from, std::size_t bytes) noexcept = 0;
    virtual void recv(int peer, void* to, std::size_t bytes) noexcept = 0;
    virtual void close() noexcept = 0;

protected:
    ~stream_messages() = default;
};

/// A device and the network between devices. Operations are added to queues, which run them later and in order; no
/// thread waits for them. One object per communicator, used by one thread at a time. All ranks add their parts of the
/// same operations in the same order over all queues. Nothing between begin() and end() throws: the first failure is
/// latched, and later operations do nothing.
class stream_transport {
public:
    virtual ~stream_transport() = default;

    virtual std::string_view name() const noexcept = 0;
    /// Returns the stages that the transport itself runs for a type and an operation.
    virtual capabilities can(element_type type, reduce_op op) const = 0;
    /// Set-up, between calls: prepares stages among further groups. A group lists ranks by position. The groups of one
    /// round have no ranks in common. Collective.
    virtual void prepare(std::span<const std::vector<std::vector<int>>> rounds) noexcept = 0;
    /// Set-up: allocates device memory. @throws transport_error
    virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
    /// Set-up: allocates host memory for messages over MPI; null if MPI accepts device addresses.
    /// @throws transport_error
    virtual std::shared_ptr<std::byte> allocate_host(std::size_t bytes) = 0;
    /// Returns true for memory of this device.
    virtual bool holds(const void* memory) const noexcept = 0;

    /// Returns a stream for callers without one.
    virtual CUstream_st* own_stream() const noexcept = 0;
    /// Returns true while the stream is being captured into a graph.
    virtual bool captures(CUstream_st* stream) const noexcept = 0;

    /// Begins a call: its queues start after the work that is now in `stream`. Returns true if the call is captured
    /// into a graph. Each launch of the graph then runs the call.
    virtual bool begin(CUstream_st* stream, int queues) noexcept = 0;
    /// Ends a call: `stream` continues after the queues have finished. Returns the number of the call, from 1.
    virtual std::uint64_t end() noexcept = 0;

    /// Returns messages over NCCL. Messages of different stages do not wait for each other.
    virtual stream_messages& over_nccl() noexcept = 0;
    /// Returns messages over MPI, which a graph cannot contain. Requires a transport that was made for them.
    virtual stream_messages& over_mpi() noexcept = 0;
    /// Adds a stage of can().
    virtual void stage(int queue, const call_position& where, const stage_call& call) noexcept = 0;
    virtual void copy(int queue, void* to, const void* from, std::size_t bytes) noexcept = 0;
    /// Reduces like reduce_kernel. With one source, copies and divides.
    virtual void reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count, element_type type,
                        reduce_op op, int divisor) noexcept = 0;

    /// Returns true once a call is complete. A call captured into a graph counts as complete.
    virtual bool done(std::uint64_t call) noexcept = 0;
    /// Ends all work in flight, without waiting for other ranks. The transport has failed from then on.
    virtual void abandon() noexcept = 0;
    /// Returns a copy of the first failure, since another thread may latch one.
    virtual std::optional<transport_fault> fault() const = 0;
    /// Returns true if the failure is a timeout.
    virtual bool timed_out() const noexcept = 0;
};

}  // namespace terrace::detail
