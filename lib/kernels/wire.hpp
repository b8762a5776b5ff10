#pragma once

#include <cstdint>

#include <terrace/types.hpp>

#include "base/range.hpp"
#include "base/wire_type.hpp"
#include "kernels/reduce.hpp"

namespace terrace::detail {

/// Returns true if elements can be encoded: real floats that are longer than what they become. Others cross the wire as
/// they are.
bool is_encoded(element_type type, wire_type as) noexcept;

/// Writes wire_bytes(as, count) bytes at `to` that stand for the elements. bfloat16 and float16 round each element to
/// the nearest, ties to even; what float16 does not reach becomes infinite. int8 rounds to multiples of the block's
/// scale, the largest finite magnitude in the block / 126: within half a scale. NaN and infinities stay what they are,
/// and have no part in the scale. float64 goes by way of float. No two operands overlap. Any alignment.
/// @pre is_encoded(type, as)
void encode(void* to, const void* from, std::int64_t count, element_type type, wire_type as,
            vectors v = widest_vectors()) noexcept;

/// Writes `count` elements at `to` from what encode wrote of so many. Encoding these 16-bit results again changes
/// nothing.
void decode(void* to, const void* from, std::int64_t count, element_type type, wire_type as,
            vectors v = widest_vectors()) noexcept;

/// Adds to `errors` what encode rounded away of some elements: `weight` times each element of `from`, minus what decode
/// makes of it. Where either is not finite it adds nothing.
/// @param errors elements of the same type, at the same places   @param encoded what encode wrote of all elements
void add_rounding_errors(void* errors, const void* from, const void* encoded, range some, double weight,
                         element_type type, wire_type as) noexcept;

}  // namespace terrace::detail
