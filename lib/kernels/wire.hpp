#pragma once

#include <cstdint>

#include <terrace/types.hpp>

#include "base/range.hpp"
#include "base/wire_type.hpp"
#include "kernels/reduce.hpp"

namespace terrace::detail {

/// Returns true if elements can be encoded: real floats that are longer than their encoding. Other elements are sent
/// unchanged.
bool is_encoded(element_type type, wire_type as) noexcept;

/// Encodes the elements into wire_bytes(as, count) bytes at `to`. bfloat16 and float16 round each element to the
/// nearest, ties to even; beyond the range of float16 the result is infinite. int8 rounds to multiples of the scale,
/// which is the largest finite magnitude in the block / 126; the error is at most half a scale. NaN and infinities are
/// kept and do not affect the scale. float64 is first converted to float. Operands must not overlap. Any alignment.
/// @pre is_encoded(type, as)
void encode(void* to, const void* from, std::int64_t count, element_type type, wire_type as,
            vectors v = widest_vectors()) noexcept;

/// Decodes into `to` the `count` elements that encode() wrote. Encoding the result again gives the same bytes for the
/// 16-bit types.
void decode(void* to, const void* from, std::int64_t count, element_type type, wire_type as,
            vectors v = widest_vectors()) noexcept;

/// Adds the rounding errors of some elements to `errors`: `weight` times the difference between an element of `from`
/// and its decoded value. Adds nothing if the difference is not finite.
/// @param errors elements of the same type, at the same indices   @param encoded output of encode() for all elements
void add_rounding_errors(void* errors, const void* from, const void* encoded, range some, double weight,
                         element_type type, wire_type as) noexcept;

}  // namespace terrace::detail
