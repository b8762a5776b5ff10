#pragma once

#include <cstdint>

#include <terrace/types.hpp>

struct CUstream_st;

namespace terrace::detail {

/// Most sources of one reduction on a GPU: their addresses travel with the launch.
inline constexpr int most_gpu_sources = 256;

/// As reduce_kernel, on the device's memory: puts into `stream` what makes dst[i] = sources[0][i] op ... op
/// sources[k-1][i], divided by `divisor` before it is rounded. The same bits as on the host. `sources` itself is host
/// memory, read before it returns. 1 <= k <= most_gpu_sources; with one source it is a copy, divided. dst may be one of
/// the sources.
/// @returns CUDA's code, 0 where all is well
using gpu_reduce_kernel = int (*)(void* dst, const void* const* sources, int k, std::int64_t count, element_type type,
                                  reduce_op op, int divisor, CUstream_st* stream);

/// Terrace's own kernels, in the module alone.
int reduce_on_gpu(void* dst, const void* const* sources, int k, std::int64_t count, element_type type, reduce_op op,
                  int divisor, CUstream_st* stream) noexcept;

}  // namespace terrace::detail
