#pragma once

#include <memory>
#include <string>

#include <terrace/options.hpp>

#include "bench/measure/memory.hpp"
#include "bench/measure/world.hpp"
#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail::bench {

/// This rank's GPU and a stream on it, by the module that the library loads: this program starts without CUDA and NCCL.
class gpu {
public:
    /// Collective. A rank takes the device of its number on its host, around the devices. @throws usage_error where
    /// there is none, with what is missing and what to do; transport_error
    gpu(const world& w, const options& o);
    gpu(const gpu&) = delete;
    gpu& operator=(const gpu&) = delete;
    ~gpu();

    const gpu_runtime& runtime() const noexcept { return runtime_; }
    int number() const noexcept { return number_; }
    gpu_stream stream() const noexcept { return stream_; }
    /// "CUDA 13.0, driver for 13.0: 1 NVIDIA H200; NCCL 2.28.9", of the caller's host
    const std::string& description() const noexcept { return description_; }
    /// The most ranks of the caller's host that have one device.
    int sharers() const noexcept { return sharers_; }

    /// @throws transport_error where CUDA's code says so
    void check(int code, const char* call) const;
    /// Until all that the stream got is through.
    void wait() const;

private:
    std::string description_;
    const gpu_runtime& runtime_;
    int number_ = 0, sharers_ = 1;
    gpu_stream stream_ = nullptr;
};

/// Two events in the GPU's stream, and the time between them.
class stopwatch {
public:
    /// @throws transport_error, as its functions do
    explicit stopwatch(const gpu& on);
    stopwatch(const stopwatch&) = delete;
    stopwatch& operator=(const stopwatch&) = delete;
    ~stopwatch();

    void start() const;
    void stop() const;
    /// Once both are through [s].
    double seconds() const;

private:
    const gpu& gpu_;
    gpu_event begin_ = nullptr, end_ = nullptr;
};

/// Buffers on the device, timed by events in its stream.
std::unique_ptr<memory> device_memory(const gpu& on);

}  // namespace terrace::detail::bench
