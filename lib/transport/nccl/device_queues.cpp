#include "transport/nccl/device_queues.hpp"

#include <sched.h>

#include <chrono>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/at_end.hpp"

namespace terrace::detail {

namespace {

using clock = std::chrono::steady_clock;

// While the result lives, calls of this thread break no stream capture.
auto relaxed_capture(const gpu_runtime& gpu) {
    int mode = gpu_runtime::relaxed;
    gpu.capture_mode(&mode);
    return at_end([gpu = &gpu, mode]() mutable { gpu->capture_mode(&mode); });
}

}  // namespace

device_queues::~device_queues() {
    if (own_ != nullptr) gpu_.drop_stream(own_);
    for (const queue& q : queues_) {
        if (q.stream != nullptr) gpu_.drop_stream(q.stream);
        if (q.last != nullptr) gpu_.drop_event(q.last);
    }
}

std::optional<transport_fault> device_queues::open() {
    int count = 0;
    if (const int code = gpu_.device_count(&count); code != 0)
        return transport_fault{"cuda", "cudaGetDeviceCount", code,
                               fmt::format("{}; there is no GPU here, or no driver of it: nvidia-smi tells. Host "
                                           "buffers need none: terrace::mpi::create",
                                           gpu_.cuda_error(code))};
    if (device_ < 0 || device_ >= count)
        return transport_fault{
            "cuda", "cudaSetDevice", 101,
            fmt::format("device {} of {}; give each rank one of 0 to {}", device_, count, count - 1)};
    if (const int code = gpu_.use_device(device_); code != 0) return cuda_fault("cudaSetDevice", code);
    return {};
}

std::optional<transport_fault> device_queues::make(int queues) {
    queues_.resize(static_cast<std::size_t>(queues));
    int code = gpu_.make_stream(&own_);
    for (queue& q : queues_) {
        if (code == 0) code = gpu_.make_stream(&q.stream);
        if (code == 0) code = gpu_.make_event(&q.last);
    }
    if (code != 0) return cuda_fault("cudaStreamCreateWithFlags", code);
    return {};
}

// Aborted work ends soon, unless the device itself hangs.
void device_queues::drain() noexcept {
    constexpr auto soon = std::chrono::seconds(2);
    const auto began = clock::now();
    for (const queue& q : queues_)
        for (bool done = false; !done && clock::now() - began < soon; sched_yield())
            if (gpu_.stream_done(q.stream, &done) != 0) break;
}

template <class Allocate, class Release>
std::shared_ptr<std::byte> device_queues::memory_of(const char* call, Allocate allocate, Release release,
                                                    std::size_t bytes) {
    use();
    void* memory = nullptr;
    const int code = [&] {
        const auto here = relaxed_capture(gpu_);
        return allocate(&memory, bytes);
    }();
    if (code != 0) throw transport_error("cuda", call, code, gpu_.cuda_error(code));
    return {static_cast<std::byte*>(memory), [gpu = &gpu_, release, device = device_, kept = kept_](std::byte* p) {
                if (*kept) return;
                gpu->use_device(device);
                const auto here = relaxed_capture(*gpu);
                release(p);
            }};
}

std::shared_ptr<std::byte> device_queues::allocate(std::size_t bytes) {
    return memory_of("cudaMalloc", gpu_.allocate, gpu_.release, bytes);
}

std::shared_ptr<std::byte> device_queues::allocate_pinned(std::size_t bytes) {
    return memory_of("cudaMallocHost", gpu_.allocate_pinned, gpu_.release_pinned, bytes);
}

void device_queues::reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count,
                           element_type type, reduce_op op, int divisor) noexcept {
    if (!fault_)
        check("reduction kernel",
              gpu_.combine(to, from.data(), static_cast<int>(from.size()), count, type, op, divisor, at(queue).stream));
}

bool device_queues::reached(gpu_event e) noexcept {
    const auto here = relaxed_capture(gpu_);
    bool done = false;
    check("cudaEventQuery", gpu_.event_done(e, &done));
    return done;
}

}  // namespace terrace::detail
