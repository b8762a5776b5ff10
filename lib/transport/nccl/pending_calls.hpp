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

/// Network operations in the queues, of the calls in flight, in the order of issue. An event behind each shows which
/// operation a late call waits for. Only the last `most` are kept.
class operation_log {
public:
    explicit operation_log(const gpu_runtime& gpu) : gpu_(gpu) {}
    operation_log(const operation_log&) = delete;
    operation_log& operator=(const operation_log&) = delete;
    ~operation_log();

    /// Begins a call. @param alone no other call is in flight   @param kept its operations are recorded
    void begin_call(bool alone, bool kept) noexcept {
        if (alone) next_ = 0;
        kept_ = kept;
    }
    // begin(), and meets() for each rank that takes part, precede an operation; end() follows. @returns CUDA's code
    void begin(const call_position& where) noexcept;
    void meets(int rank) noexcept {
        if (kept_) marks_[next_ % most].ranks.push_back(rank);
    }
    int end(gpu_stream stream) noexcept;

    /// Returns the first incomplete operation: "stage 1 up, step 0, chunk 2 waits for rank 3 or 5"; empty if none.
    /// @param passed returns true if an event has been reached   @param self this rank, which is not named
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

/// The calls in a device's queues, with an event at the start and at the end of each. Not thread-safe: its owner holds
/// a lock.
class pending_calls {
public:
    /// @param timeout of each call; 0: none
    pending_calls(device_queues& on, std::chrono::duration<double> timeout) : on_(on), timeout_(timeout) {}
    pending_calls(const pending_calls&) = delete;
    pending_calls& operator=(const pending_calls&) = delete;
    ~pending_calls();

    /// Begins a call: its queues wait for the work in `stream`. Returns true if no other call is in flight.
    bool begin(gpu_stream stream, int queues) noexcept;
    /// Ends the call: the stream waits for the queues. Returns the number of the call.
    std::uint64_t end() noexcept;
    /// Returns the call between begin() and end().
    const issued_call& current() const noexcept { return current_; }

    /// Returns true if a call may be running: one in flight, or one in a graph, which may run at any time.
    bool may_run() const noexcept { return !calls_.empty() || graphs_; }
    /// Removes the calls that are complete. Returns true if none is left.
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
        clock::time_point since;  // time when it was first seen to run, as the oldest call
    };

    device_queues& on_;
    const std::chrono::duration<double> timeout_;
    std::deque<pending_call> calls_;  // oldest first
    std::vector<events> spare_;
    bool graphs_ = false;
    issued_call current_;
    gpu_stream caller_ = nullptr;  // stream of the current call
    int used_ = 0;                 // number of its queues
};

}  // namespace terrace::detail
