#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/gpu_reduce.hpp"
#include "kernels/gpu_shapes.hpp"
#include "kernels/gpu_thread.hpp"

namespace terrace::detail {

// The namespace has a name since nvcc derives the name of an unnamed one from the build directory. Builds in different
// directories would then differ.
namespace kernels {

template <int K>
struct addresses {
    const void* of[K];
};

template <class T, class Op, class Shape>
__global__ void __launch_bounds__(gpu::threads, Shape::blocks)
    reduction(const __grid_constant__ gpu::task t, const __grid_constant__ addresses<Shape::most> sources) {
    gpu::reduce<T, Op, Shape::batch, Shape::unrolled>(
        t, sources.of, {blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x), gpu::threads});
}

struct launch {
    void* dst;
    const void* const* sources;
    int k;
    std::int64_t count;
    int divisor, multiprocessors;
    CUstream_st* stream;

    template <class T, class Op, class Shape>
    cudaError_t run(int parts) const {
        const gpu::task t =
            gpu::part(dst, sources, k, count * parts, sizeof(T), divisor, gpu::threads * Shape::unrolled);
        addresses<Shape::most> from;
        std::copy_n(sources, k, from.of);
        const auto blocks = std::min<std::int64_t>(gpu::blocks(t, sizeof(T)), multiprocessors * Shape::blocks);
        cudaLaunchConfig_t where{};
        where.gridDim = dim3(static_cast<unsigned>(blocks));
        where.blockDim = dim3(gpu::threads);
        where.stream = stream;
        // Unlike cudaGetLastError, this returns no earlier error of the caller, and clears none.
        return cudaLaunchKernelEx(&where, reduction<T, Op, Shape>, t, from);
    }
};

}  // namespace kernels

int reduce_on_gpu(void* dst, const void* const* sources, int k, std::int64_t count, element_type type, reduce_op op,
                  int divisor, CUstream_st* stream) noexcept {
    if (k < 1 || k > most_gpu_sources || count < 0) return cudaErrorInvalidValue;
    if (count == 0) return cudaSuccess;
    int device = 0, multiprocessors = 0;
    if (const cudaError_t failed = cudaGetDevice(&device)) return failed;
    if (const cudaError_t failed = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device))
        return failed;
    return gpu::with_kernel(type, op, k, kernels::launch{dst, sources, k, count, divisor, multiprocessors, stream});
}

}  // namespace terrace::detail
