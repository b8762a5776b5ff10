#pragma once

#include <cstdint>

#include <terrace/types.hpp>

namespace terrace::detail {

/// dst[i] = sources[0][i] op ... op sources[k-1][i] for i < count, combined in this order; float16 and bfloat16 in
/// float, rounded once. A NaN result is the one canonical quiet NaN, so that all ranks have the same bits whatever the
/// payloads. The result is divided by `divisor` before it is rounded; for all but avg that is 1. k >= 1. dst may be one
/// of the sources, but not overlap one in part. Any alignment of the element type.
using reduce_kernel = void (*)(void* dst, const void* const* sources, int k, std::int64_t count, int divisor);

/// Loops for the vectors that all processors of a kind have, or for wider ones. Both give the same bits.
enum class vectors { plain, wide };

/// The widest that this machine has.
vectors widest_vectors() noexcept;

/// How the sources of a reduction are combined: in their order, or by the tree of lib/schedule/tree_stages.hpp, each
/// node rounded to the element type. Of two sources both are the same.
enum class grouping { in_order, by_tree };

/// Returns the kernel; null where the operation is not defined for the type.
reduce_kernel find_reduce(element_type type, reduce_op op, vectors v = widest_vectors(),
                          grouping how = grouping::in_order) noexcept;

/// to[i] = from[i] * factor for i < count, computed in the accumulator and rounded once; of complex numbers both parts.
/// The type is one of those that premul_sum is defined for. `to` may be `from`, but not overlap it in part.
void multiply(void* to, const void* from, std::int64_t count, element_type type, double factor,
              vectors v = widest_vectors()) noexcept;

}  // namespace terrace::detail
