#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/messages.hpp"
#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail {

/// transport_fault::code of an operation that ran past options::timeout.
inline constexpr int timed_out_code = -1;

/// A device: its queues, its memory, and the first failure of any work on it. After a failure nothing more is enqueued.
/// Not thread-safe: its owner holds a lock.
class device_queues {
public:
    struct queue {
        gpu_stream stream = nullptr;
        gpu_event last = nullptr;  ///< recorded after the last operation of a call
    };

    device_queues(const gpu_runtime& gpu, int device) : gpu_(gpu), device_(device) {}
    device_queues(const device_queues&) = delete;
    device_queues& operator=(const device_queues&) = delete;
    ~device_queues();

    const gpu_runtime& gpu() const noexcept { return gpu_; }
    int device() const noexcept { return device_; }
    /// Makes the device the current one of this thread.
    void use() const noexcept { gpu_.use_device(device_); }

    /// Open the device, and make its queues. Both return the failure, if any.
    std::optional<transport_fault> open();
    std::optional<transport_fault> make(int queues);
    queue& at(int number) noexcept { return queues_[static_cast<std::size_t>(number)]; }
    /// Returns a stream for callers that have none.
    gpu_stream own() const noexcept { return own_; }
    /// Waits until the queues are done, for two seconds at most since the device may hang.
    void drain() noexcept;

    /// Allocate device memory, and host memory for asynchronous copies. @throws transport_error
    std::shared_ptr<std::byte> allocate(std::size_t bytes);
    std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes);
    /// Keeps all memory until the process ends, since a network may still use it.
    void keep_memory() noexcept { *kept_ = true; }
    bool keeps_memory() const noexcept { return *kept_; }
    /// Returns true for memory of this device.
    bool holds(const void* memory) const noexcept {
        use();  // the query creates a context on the thread's current device
        int device = -1;
        return gpu_.device_of(memory, &device) == 0 && device == device_;
    }

    // Enqueue work. After a failure these do nothing.
    void copy(int queue, void* to, const void* from, std::size_t bytes) noexcept {
        if (!fault_) check("cudaMemcpyAsync", gpu_.copy(to, from, bytes, at(queue).stream));
    }
    void reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count, element_type type,
                reduce_op op, int divisor) noexcept;
    /// Returns true once an event has been reached.
    bool reached(gpu_event e) noexcept;

    const std::optional<transport_fault>& fault() const noexcept { return fault_; }
    /// Latches the first failure, and then calls the function of at_failure(), unless failures are held.
    void fail(transport_fault f) noexcept {
        if (fault_) return;
        fault_ = std::move(f);
        if (at_failure_ && !held_) at_failure_();
    }
    /// Sets a function that ends the work on the device that waits for other ranks. It is called at a failure.
    void at_failure(std::function<void()> action) { at_failure_ = std::move(action); }
    // Between these, this call is delayed: NCCL drops the operations of an open group only when the group ends.
    void hold_failures() noexcept { held_ = true; }
    void release_failures() noexcept {
        held_ = false;
        if (fault_ && at_failure_) at_failure_();
    }
    /// Fails if a function of CUDA returned a code other than 0.
    void check(const char* call, int code) noexcept {
        if (code != 0 && !fault_) fail(cuda_fault(call, code));
    }
    transport_fault cuda_fault(const char* call, int code) const { return {"cuda", call, code, gpu_.cuda_error(code)}; }
    transport_fault nccl_fault(const char* call, int code) const { return {"nccl", call, code, gpu_.nccl_error(code)}; }

private:
    template <class Allocate, class Release>
    std::shared_ptr<std::byte> memory_of(const char* call, Allocate allocate, Release release, std::size_t bytes);

    const gpu_runtime& gpu_;
    const int device_;
    std::vector<queue> queues_;
    gpu_stream own_ = nullptr;
    const std::shared_ptr<bool> kept_ = std::make_shared<bool>(false);
    std::optional<transport_fault> fault_;
    std::function<void()> at_failure_;
    bool held_ = false;
};

}  // namespace terrace::detail
