#pragma once

#include <memory>
#include <string>

#include <terrace/options.hpp>

#include "bench/measure/memory.hpp"
#include "bench/measure/world.hpp"
#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail::bench {

/// This rank's GPU and a stream on it, by a module that the library loads: the program starts without CUDA and NCCL.
class gpu {
public:
    /// Collective. Rank i of a host uses device i modulo the number of devices. @throws usage_error if there is none,
    /// with the missing part and the remedy; transport_error
    gpu(const world& w, const options& o);
    gpu(const gpu&) = delete;
    gpu& operator=(const gpu&) = delete;

    const gpu_runtime& runtime() const noexcept { return runtime_; }
    int number() const noexcept { return number_; }
    gpu_stream stream() const noexcept { return stream_.get(); }
    /// "CUDA 13.0, driver for 13.0: 1 NVIDIA H200; NCCL 2.28.9", of the caller's host
    const std::string& description() const noexcept { return description_; }
    /// Returns the largest number of ranks per device on the caller's host.
    int sharers() const noexcept { return sharers_; }

    /// Makes another stream; the next ones allocate device memory and pinned host memory. @throws transport_error
    std::shared_ptr<CUstream_st> make_stream() const {
        gpu_stream made = nullptr;
        check(runtime_.make_stream(&made), "cudaStreamCreateWithFlags");
        return {made, runtime_.drop_stream};
    }
    std::shared_ptr<std::byte> allocate(std::size_t bytes) const {
        void* memory = nullptr;
        check(runtime_.allocate(&memory, bytes), "cudaMalloc");
        return {static_cast<std::byte*>(memory), runtime_.release};
    }
    std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) const {
        void* memory = nullptr;
        check(runtime_.allocate_pinned(&memory, bytes), "cudaMallocHost");
        return {static_cast<std::byte*>(memory), runtime_.release_pinned};
    }

    /// @throws transport_error if `code` is an error of CUDA
    void check(int code, const char* call) const;
    /// Waits until all work in the stream is complete.
    void wait() const;

private:
    std::string description_;
    const gpu_runtime& runtime_;
    int number_ = 0, sharers_ = 1;
    std::shared_ptr<CUstream_st> stream_;
};

/// Two events in a stream of the GPU, and the time between them.
class stopwatch {
public:
    /// @throws transport_error, as its functions do
    stopwatch(const gpu& on, gpu_stream stream) : gpu_(on), stream_(stream) {
        for (gpu_event* e : {&begin_, &end_}) gpu_.check(gpu_.runtime().make_timer(e), "cudaEventCreate");
    }
    stopwatch(const stopwatch&) = delete;
    stopwatch& operator=(const stopwatch&) = delete;
    ~stopwatch() {
        for (const gpu_event e : {begin_, end_}) gpu_.runtime().drop_event(e);
    }

    void start() const { gpu_.check(gpu_.runtime().record(begin_, stream_), "cudaEventRecord"); }
    void stop() const { gpu_.check(gpu_.runtime().record(end_, stream_), "cudaEventRecord"); }
    /// Returns the time between the events [s], after both are complete.
    double seconds() const {
        double found = 0;
        gpu_.check(gpu_.runtime().seconds_between(&found, begin_, end_), "cudaEventElapsedTime");
        return found;
    }

private:
    const gpu& gpu_;
    gpu_stream stream_;
    gpu_event begin_ = nullptr, end_ = nullptr;
};

/// Makes memory of the device, with calls timed by events in its stream.
std::unique_ptr<memory> device_memory(const gpu& on);

}  // namespace terrace::detail::bench
