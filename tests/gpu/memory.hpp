#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime.h>

namespace terrace::detail::test {

inline void check(int code, const char* what) {
    if (code != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(static_cast<cudaError_t>(code)));
}
#define CHECK(call) check(call, #call)

/// Returns why there is no GPU to test with; empty if there is one.
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

}  // namespace terrace::detail::test
