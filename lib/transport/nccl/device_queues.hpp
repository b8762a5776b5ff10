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

/// A device: its queues, its memory, and the first failure of anything that runs on it. After a failure nothing more is
/// put into queues. Not thread-safe: its owner holds a lock.
class device_queues {
public:
    struct queue {
        gpu_stream stream = nullptr;
        gpu_event last = nullptr;  ///< behind the last operation of a call
    };

    device_queues(const gpu_runtime& gpu, int device) : gpu_(gpu), device_(device) {}
    device_queues(const device_queues&) = delete;
    device_queues& operator=(const device_queues&) = delete;
    ~device_queues();

    const gpu_runtime& gpu() const noexcept { return gpu_; }
    int device() const noexcept { return device_; }
    /// Makes the device the current one of this thread.
    void use() const noexcept { gpu_.use_device(device_); }

    /// Opens the device and makes its queues; both return what went wrong.
    std::optional<transport_fault> open();
    std::optional<transport_fault> make(int queues);
    queue& at(int number) noexcept { return queues_[static_cast<std::size_t>(number)]; }
    /// A stream for callers that have none.
    gpu_stream own() const noexcept { return own_; }
    /// Waits until the queues are done, or for a time if the device hangs.
    void drain() noexcept;

    /// Allocate memory of the device, and of the host for copies that do not wait. @throws transport_error
    std::shared_ptr<std::byte> allocate(std::size_t bytes);
    std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes);
    /// Keeps all memory for ever, since a network may still use it.
    void keep_memory() noexcept { *kept_ = true; }
    bool keeps_memory() const noexcept { return *kept_; }
    /// True for memory of this device.
    bool holds(const void* memory) const noexcept {
        use();  // the question makes a context on the thread's current device
        int device = -1;
        return gpu_.device_of(memory, &device) == 0 && device == device_;
    }

    // Put work into queues. Do nothing after a failure.
    void copy(int queue, void* to, const void* from, std::size_t bytes) noexcept {
        if (!fault_) check("cudaMemcpyAsync", gpu_.copy(to, from, bytes, at(queue).stream));
    }
    void reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count, element_type type,
                reduce_op op, int divisor) noexcept;
    /// True once an event has been reached.
    bool reached(gpu_event e) noexcept;

    const std::optional<transport_fault>& fault() const noexcept { return fault_; }
    /// Latches the first failure, and then ends what waits for others on the device.
    void fail(transport_fault f) noexcept {
        if (fault_) return;
        fault_ = std::move(f);
        if (at_failure_ && !held_) at_failure_();
    }
    /// Says what to do at a failure.
    void at_failure(std::function<void()> action) { at_failure_ = std::move(action); }
    // Between these that waits: NCCL drops the operations of an open group only where it ends.
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
