#pragma once

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport/nccl/module.hpp"

namespace terrace::detail::test {

/// Loads the module that TERRACE_GPU_MODULE names, or else the build's.
inline gpu_module module_of_tests() {
    const char* named = std::getenv("TERRACE_GPU_MODULE");
    return load_gpu_module(named != nullptr ? named : "");
}

/// Returns why the module has no device; empty if it has one.
inline std::string no_device(const gpu_module& m) {
    int devices = 0;
    if (m.runtime == nullptr) return m.trouble;
    if (const int code = m.runtime->device_count(&devices); code != 0)
        return std::string("no GPU: ") + m.runtime->cuda_error(code);
    return devices == 0 ? "no GPU is visible" : "";
}

/// A device of a module, with one stream.
class device {
public:
    device(const gpu_runtime& gpu, int number) : gpu_(gpu), number_(number) {
        check(gpu_.use_device(number));
        check(gpu_.make_stream(&stream_));
    }
    device(const device&) = delete;
    device& operator=(const device&) = delete;
    ~device() { gpu_.drop_stream(stream_); }

    const gpu_runtime& gpu() const noexcept { return gpu_; }
    int number() const noexcept { return number_; }
    gpu_stream stream() const noexcept { return stream_; }
    void check(int code) const {
        if (code != 0) throw std::runtime_error(gpu_.cuda_error(code));
    }
    void wait() const {
        for (bool done = false; !done;) check(gpu_.stream_done(stream_, &done));
    }

private:
    const gpu_runtime& gpu_;
    int number_;
    gpu_stream stream_ = nullptr;
};

/// Elements on a device; copies to and from the host are ordered with other work of the device's stream.
template <class T>
class device_vector {
public:
    device_vector(const device& on, std::size_t count) : on_(on), count_(count) {
        on_.check(on_.gpu().allocate(&memory_, count * sizeof(T)));
    }
    device_vector(const device_vector&) = delete;
    device_vector& operator=(const device_vector&) = delete;
    ~device_vector() { on_.gpu().release(memory_); }

    T* data() const noexcept { return static_cast<T*>(memory_); }
    void put(const std::vector<T>& values) const { copy(memory_, values.data()); }
    void fill(int byte) const {
        std::vector<T> values(count_);
        std::memset(static_cast<void*>(values.data()), byte, count_ * sizeof(T));
        put(values);
    }
    std::vector<T> get() const {
        std::vector<T> values(count_);
        copy(values.data(), memory_);
        return values;
    }

private:
    void copy(void* to, const void* from) const {
        on_.check(on_.gpu().copy(to, from, count_ * sizeof(T), on_.stream()));
        on_.wait();
    }

    const device& on_;
    std::size_t count_;
    void* memory_ = nullptr;
};

}  // namespace terrace::detail::test
