#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transport/nccl/device_queues.hpp"
#include "transport/nccl/nccl_comms.hpp"

namespace terrace::detail {

/// The calls that are in a device's queues, with an event at the start and at the end of each. Not thread-safe: its
/// owner holds a lock.
class pending_calls {
public:
    /// @param timeout of each call; 0: none
    pending_calls(device_queues& on, std::chrono::duration<double> timeout) : on_(on), timeout_(timeout) {}
    pending_calls(const pending_calls&) = delete;
    pending_calls& operator=(const pending_calls&) = delete;
    ~pending_calls();

    /// Begins a call: its queues wait for the work in `stream`. Returns true if no other call is in flight.
    bool begin(gpu_stream stream, int queues) noexcept;
    /// Ends it: the stream waits for the queues. Returns its number.
    std::uint64_t end() noexcept;
    /// The call between begin() and end().
    const issued_call& current() const noexcept { return current_; }

    /// True if a call may be running: one in flight, or a graph, which runs without a call.
    bool may_run() const noexcept { return !calls_.empty() || graphs_; }
    /// Forgets the calls that are complete. True if none is left.
    bool all_done() noexcept;
    bool done(std::uint64_t call) noexcept { return all_done() || calls_.front().number > call; }
    /// Returns the oldest call if it has run for longer than the timeout.
    std::optional<std::uint64_t> find_late() noexcept;

private:
    using clock = std::chrono::steady_clock;
    struct events {
        gpu_event begun = nullptr, ended = nullptr;
    };
    struct pending_call {
        std::uint64_t number;
        events at;
        clock::time_point since;  // when it was first seen to run, with none before it
    };

    events take_events() noexcept;

    device_queues& on_;
    const std::chrono::duration<double> timeout_;
    std::deque<pending_call> calls_;  // oldest first
    std::vector<events> spare_;
    bool graphs_ = false;
    issued_call current_;
    gpu_stream caller_ = nullptr;  // of the current call
    int used_ = 0;                 // its queues
};

}  // namespace terrace::detail
