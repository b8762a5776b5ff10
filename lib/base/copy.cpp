#include "base/copy.hpp"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#    include <emmintrin.h>
#endif

namespace terrace::detail {

void copy(void* to, const void* from, std::size_t bytes, bool streams) noexcept {
#ifdef __SSE2__
    constexpr std::size_t line = 64;
    auto* dst = static_cast<std::byte*>(to);
    const auto* src = static_cast<const std::byte*>(from);
    const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
    if (streams && bytes > head + line) {
        std::memcpy(dst, src, head);
        std::size_t at = head;
        for (; at + line <= bytes; at += line)
            for (std::size_t i = at; i < at + line; i += sizeof(__m128i))
                _mm_stream_si128(reinterpret_cast<__m128i*>(dst + i),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i)));
        std::memcpy(dst + at, src + at, bytes - at);
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

void end_streams() noexcept {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

}  // namespace terrace::detail
