#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <terrace/types.hpp>

#include "executor/transport.hpp"
#include "schedule/lower.hpp"

struct CUstream_st;

namespace terrace {

/// Where in a call something is.
struct place {
    int stage = 0;  ///< of the plan's rule
    bool down = false;
    int step = 0;
    std::int64_t chunk = 0;
};

/// What the executor's enqueuing form asks of a device and the network between devices: that things are put into
/// queues, where they run later, in order, while nobody waits. One per communicator, used by one thread at a time.
/// Every rank puts its part of the same things in, in the same order over all queues. Nothing between begin() and end()
/// throws: the first failure is latched, and what comes after it does nothing.
class stream_transport {
public:
    virtual ~stream_transport() = default;

    virtual std::string_view name() const noexcept = 0;
    /// The stages of such a call that it runs itself.
    virtual capabilities can(element_type type, reduce_op op) const = 0;
    /// Set-up, between calls: lets it run stages itself among these groups, too, ranks by position, of which those of
    /// one round have no ranks in common. Collective.
    virtual void prepare(std::span<const std::vector<std::vector<int>>> rounds) noexcept = 0;
    /// Set-up: memory of the device. @throws transport_error
    virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
    /// Set-up: memory of the host for what goes over MPI; null where MPI takes addresses of the device. @throws
    /// transport_error
    virtual std::shared_ptr<std::byte> allocate_host(std::size_t bytes) = 0;
    /// Whether it is memory of this device.
    virtual bool holds(const void* memory) const noexcept = 0;

    /// A stream for callers that have none.
    virtual CUstream_st* own_stream() const noexcept = 0;
    /// Whether a graph is being made of what the stream gets.
    virtual bool captures(CUstream_st* stream) const noexcept = 0;

    /// A call begins: its queues go on when all that `stream` has got so far is done.
    virtual void begin(CUstream_st* stream, int queues) noexcept = 0;
    /// `stream` goes on when the call's queues are through. @returns the number of the call, from 1
    virtual std::uint64_t end() noexcept = 0;

    /// Messages until close() run together, in the queue. Stages are independent: messages of one do not wait for those
    /// of another. Between two ranks, messages of a stage arrive in the order sent.
    virtual void open(int queue, const place& where) noexcept = 0;
    /// The same over MPI; not in a graph. @param stage in words, that lives as long as the call
    /// @param host of allocate_host, room for all of the messages, each on a cache line
    virtual void open_mpi(int queue, std::string_view stage, std::byte* host) noexcept = 0;
    virtual void send(int peer, const void* from, std::size_t bytes) noexcept = 0;
    virtual void recv(int peer, void* to, std::size_t bytes) noexcept = 0;
    virtual void close() noexcept = 0;
    /// One that can() runs.
    virtual void stage(int queue, const place& where, const stage_call& call) noexcept = 0;
    virtual void copy(int queue, void* to, const void* from, std::size_t bytes) noexcept = 0;
    /// As reduce_kernel, and with one source a copy, divided.
    virtual void reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count, element_type type,
                        reduce_op op, int divisor) noexcept = 0;

    /// Whether a call is through. One that went into a graph counts as that.
    virtual bool done(std::uint64_t call) noexcept = 0;
    /// Ends all that is under way, without waiting for other ranks; a failure from then on.
    virtual void abandon() noexcept = 0;
    /// A copy: other threads may fail it.
    virtual std::optional<transport_fault> fault() const = 0;
    /// Whether that was that a call took too long.
    virtual bool timed_out() const noexcept = 0;
};

}  // namespace terrace
