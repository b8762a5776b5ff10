#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

namespace terrace::detail::test {

inline void check(int code, const char* what) {
    if (code != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(static_cast<cudaError_t>(code)));
}
#define CHECK(call) check(call, #call)

/// Why there is no GPU to test with; empty where there is one.
inline std::string no_gpu() {
    int devices = 0;
    const cudaError_t code = cudaGetDeviceCount(&devices);
    if (code != cudaSuccess) return std::string("no GPU: ") + cudaGetErrorString(code);
    return devices == 0 ? "no GPU is visible" : "";
}

class device_memory {
public:
    explicit device_memory(std::size_t bytes) { CHECK(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1))); }
    device_memory(device_memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    ~device_memory() { cudaFree(data_); }
    std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

private:
    void* data_ = nullptr;
};

/// Elements on a device, in the order of the stream's other work.
template <class T>
class device_vector {
public:
    device_vector(std::size_t count, cudaStream_t stream)
        : memory_(count * sizeof(T)), count_(count), stream_(stream) {}

    T* data() const noexcept { return reinterpret_cast<T*>(memory_.data()); }
    std::size_t size() const noexcept { return count_; }
    void put(const std::vector<T>& values) const {
        CHECK(cudaMemcpyAsync(data(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream_));
        CHECK(cudaStreamSynchronize(stream_));
    }
    void fill(int byte) const { CHECK(cudaMemsetAsync(data(), byte, count_ * sizeof(T), stream_)); }
    std::vector<T> get() const {
        std::vector<T> values(count_);
        CHECK(cudaMemcpyAsync(values.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost, stream_));
        CHECK(cudaStreamSynchronize(stream_));
        return values;
    }

private:
    device_memory memory_;
    std::size_t count_;
    cudaStream_t stream_;
};

}  // namespace terrace::detail::test
