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
    int stage = 0;  ///< of the plan's rule
    bool down = false;
    int step = 0;
    std::int64_t chunk = 0;
};

/// Messages between devices, put into queues. Those between open() and close() run together. Between two ranks,
/// messages of a stage arrive in the order sent.
class stream_messages {
public:
    /// @param stage its name for messages, which lives as long as the call   @param host memory of
    /// stream_transport::allocate_host, room for all of the messages, each on a cache line; null if there is none
    virtual void open(int queue, const call_position& where, std::string_view stage, std::byte* host) noexcept = 0;
    virtual void send(int peer, const void* from, std::size_t bytes) noexcept = 0;
    virtual void recv(int peer, void* to, std::size_t bytes) noexcept = 0;
    virtual void close() noexcept = 0;

protected:
    ~stream_messages() = default;
};

/// A device and the network between devices. Operations are put into queues, where they run later, in order, while
/// nobody waits. One per communicator, used by one thread at a time. Every rank puts its part of the same operations
/// in, in the same order over all queues. Nothing between begin() and end() throws: the first failure is latched, and
/// what comes after it does nothing.
class stream_transport {
public:
    virtual ~stream_transport() = default;

    virtual std::string_view name() const noexcept = 0;
    /// Returns the stages of such a call that it runs itself.
    virtual capabilities can(element_type type, reduce_op op) const = 0;
    /// Set-up, between calls: lets it run stages among these groups as well. Groups are ranks by position; those of one
    /// round have no ranks in common. Collective.
    virtual void prepare(std::span<const std::vector<std::vector<int>>> rounds) noexcept = 0;
    /// Set-up: allocates memory of the device. @throws transport_error
    virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
    /// Set-up: allocates memory of the host for messages over MPI; null where MPI accepts addresses of the device.
    /// @throws transport_error
    virtual std::shared_ptr<std::byte> allocate_host(std::size_t bytes) = 0;
    /// True for memory of this device.
    virtual bool holds(const void* memory) const noexcept = 0;

    /// A stream for callers that have none.
    virtual CUstream_st* own_stream() const noexcept = 0;
    /// True while the stream is being captured into a graph.
    virtual bool captures(CUstream_st* stream) const noexcept = 0;

    /// Begins a call: its queues start when the work that is now in `stream` is done. Returns true if the call goes
    /// into a graph, which then runs as often as it is launched.
    virtual bool begin(CUstream_st* stream, int queues) noexcept = 0;
    /// Ends a call: `stream` goes on when the queues are done. Returns the number of the call, from 1.
    virtual std::uint64_t end() noexcept = 0;

    /// Messages over NCCL. Those of different stages do not wait for each other.
    virtual stream_messages& over_nccl() noexcept = 0;
    /// Messages over MPI, which a graph cannot hold. Only if the transport was made for them.
    virtual stream_messages& over_mpi() noexcept = 0;
    /// Puts in a stage that can() names.
    virtual void stage(int queue, const call_position& where, const stage_call& call) noexcept = 0;
    virtual void copy(int queue, void* to, const void* from, std::size_t bytes) noexcept = 0;
    /// As reduce_kernel; with one source, copies and divides.
    virtual void reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count, element_type type,
                        reduce_op op, int divisor) noexcept = 0;

    /// True once a call is complete. One that went into a graph counts as complete.
    virtual bool done(std::uint64_t call) noexcept = 0;
    /// Ends all work in flight, without waiting for other ranks. The transport has failed from then on.
    virtual void abandon() noexcept = 0;
    /// Returns the first failure, by value: another thread may latch one.
    virtual std::optional<transport_fault> fault() const = 0;
    /// True if it was a timeout.
    virtual bool timed_out() const noexcept = 0;
};

}  // namespace terrace::detail
