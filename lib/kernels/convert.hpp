#pragma once

#if defined(__x86_64__)
#    include <immintrin.h>
#endif

#include <cstdint>

#include "kernels/arithmetic.hpp"
#include "kernels/reduce.hpp"

// Conversions between elements and the type in which they are added up, for loops that reduce and loops that encode.

namespace terrace::detail::arithmetic {

template <vectors V, class T>
inline void widen(wide_t<T>* to, const T* from, std::int64_t n) noexcept {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<wide_t<T>>(from[i]);
}

template <vectors V, class T>
inline void narrow(T* to, const wide_t<T>* from, std::int64_t n) noexcept {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

#if defined(__x86_64__)
#    define TERRACE_WIDE gnu::target("avx2,f16c")

// These specialisations use conversion instructions, which round like the conversion in types.hpp.
template <>
[[TERRACE_WIDE]] inline void widen<vectors::wide, float16>(float* to, const float16* from, std::int64_t n) noexcept {
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

template <>
[[TERRACE_WIDE]] inline void narrow<vectors::wide, float16>(float16* to, const float* from, std::int64_t n) noexcept {
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; ++i) to[i] = static_cast<float16>(from[i]);
}
#endif

}  // namespace terrace::detail::arithmetic
