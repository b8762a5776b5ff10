#pragma once

#include <cstdint>

#include <terrace/types.hpp>

namespace terrace::detail {

/// Computes dst[i] = sources[0][i] op ... op sources[k-1][i] for i < count, in this order. float16 and bfloat16 are
/// combined in float and rounded once. The result is divided by `divisor` before rounding; for all but avg that is 1. A
/// NaN result is the one canonical quiet NaN, so all ranks have the same bits whatever the payloads. k >= 1. dst may be
/// one of the sources but must not overlap one in part. Buffers need only the alignment of the element type.
using reduce_kernel = void (*)(void* dst, const void* const* sources, int k, std::int64_t count, int divisor);

/// Vector instructions of a loop: those that every processor of an architecture has, or wider ones. Bits are the same.
enum class vectors { plain, wide };

/// Returns the widest vectors of this machine.
vectors widest_vectors() noexcept;

/// Order in which the sources of a reduction are combined: their own order, or the tree of lib/schedule/tree_stages.hpp
/// with each node rounded to the element type. For two sources both are the same.
enum class grouping { in_order, by_tree };

/// Returns the kernel; null if the operation is not defined for the type.
reduce_kernel find_reduce(element_type type, reduce_op op, vectors v = widest_vectors(),
                          grouping how = grouping::in_order) noexcept;

/// Computes to[i] = from[i] * factor for i < count in the accumulator type, and rounds once. Multiplies both parts of
/// complex numbers. premul_sum must be defined for the type. `to` may be `from` but must not overlap it in part.
void multiply(void* to, const void* from, std::int64_t count, element_type type, double factor,
              vectors v = widest_vectors()) noexcept;

}  // namespace terrace::detail
