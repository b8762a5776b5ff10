#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "transport/nccl/device_queues.hpp"
#include "transport/nccl/gpu_runtime.hpp"
#include "transport/nccl/nccl_comms.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// Operations of the network in the queues, for the calls in flight, in the order of issue, with an event behind each:
/// so that one that waits too long learns for what. It remembers the last so many.
class operation_log {
public:
    explicit operation_log(const gpu_runtime& gpu) : gpu_(gpu) {}
    operation_log(const operation_log&) = delete;
    operation_log& operator=(const operation_log&) = delete;
    ~operation_log();

    /// A call begins. @param alone no other is in flight  @param kept whether it is remembered
    void begin_call(bool alone, bool kept) noexcept {
        if (alone) next_ = 0;
        kept_ = kept;
    }
    // Each operation, before it is put in, with the other ranks that take part; and behind it. @returns CUDA's code
    void begin(const call_position& where) noexcept;
    void meets(int rank) noexcept {
        if (kept_) marks_[next_ % most].ranks.push_back(rank);
    }
    int end(gpu_stream stream) noexcept;

    /// "stage 1 up, step 0, chunk 2 waits for rank 3 or 5": the first that is not complete; empty if all are.
    /// @param passed whether an event has been reached  @param self the caller's rank
    std::string stuck(const std::function<bool(gpu_event)>& passed, int self,
                      const std::vector<int>& callers_rank) const;

private:
    static constexpr std::size_t most = 1024;

    struct mark {
        call_position where;
        std::vector<int> ranks;
        gpu_event passed = nullptr;
    };

    const gpu_runtime& gpu_;
    std::vector<mark> marks_;  // operation n is at n % most
    std::size_t next_ = 0;
    bool kept_ = false;
};

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
