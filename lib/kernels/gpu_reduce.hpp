#pragma once

#include <cstdint>

#include <terrace/types.hpp>

struct CUstream_st;

namespace terrace::detail {

/// Maximum number of sources of one reduction on a GPU. Their addresses are parameters of the kernel launch.
inline constexpr int most_gpu_sources = 256;

/// Enqueues a reduction of device memory into `stream`, like reduce_kernel: dst[i] = sources[0][i] op ... op
/// sources[k-1][i], divided by `divisor` before rounding. Results have the same bits as on the host. The array
/// `sources` is host memory that is read before the function returns. 1 <= k <= most_gpu_sources; with one source the
/// function copies and divides. dst may be one of the sources.
/// @returns the error code of CUDA, 0 on success
using gpu_reduce_kernel = int (*)(void* dst, const void* const* sources, int k, std::int64_t count, element_type type,
                                  reduce_op op, int divisor, CUstream_st* stream);

/// Enqueues one of Terrace's own kernels. Only the module for NCCL contains this function.
int reduce_on_gpu(void* dst, const void* const* sources, int k, std::int64_t count, element_type type, reduce_op op,
                  int divisor, CUstream_st* stream) noexcept;

}  // namespace terrace::detail
