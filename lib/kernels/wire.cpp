#include "kernels/wire.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/element_types.hpp"
#include "base/index.hpp"
#include "kernels/convert.hpp"

namespace terrace::detail {

namespace {

using namespace arithmetic;

constexpr float infinity = std::numeric_limits<float>::infinity();

// Codes of int8. Finite elements have -most ... most.
constexpr float most = 126;
constexpr std::int8_t infinite = 127, not_a_number = -128;

// Loops of each format over at most one block of floats.

// Rounds like the conversion of bfloat16 in types.hpp, without its branches.
inline void pack_bfloat16(std::uint16_t* to, const float* from, int n) noexcept {
#pragma omp simd
    for (int i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(from[i]);
        const std::uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
        to[i] = static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : nearest);
    }
}

inline void unpack_bfloat16(float* to, const std::uint16_t* from, int n) noexcept {
#pragma omp simd
    for (int i = 0; i < n; ++i) to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
}

// Returns the scale of a block; zero if all finite elements are zero.
inline float scale_of(const float* from, int n) noexcept {
    std::uint32_t bits = 0;  // of the largest magnitude: magnitudes compare like their bits
#pragma omp simd reduction(max : bits)
    for (int i = 0; i < n; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(from[i]) & 0x7fffffff;
        const std::uint32_t finite = magnitude < 0x7f800000 ? magnitude : 0;
        bits = finite > bits ? finite : bits;
    }
    if (bits == 0) return 0;
    const auto largest = std::bit_cast<float>(bits);
    const float scale = std::max(largest / most, std::numeric_limits<float>::min());
    return scale * most < infinity ? scale : std::nextafter(scale, 0.0f);
}

inline void pack_int8(std::int8_t* to, const float* from, int n, float scale) noexcept {
    constexpr float round = 0x1.8p23f;  // its last place is 1: adding it rounds to the nearest integer, ties to even
    const float inverse = scale > 0 ? 1 / scale : 0;
#pragma omp simd
    for (int i = 0; i < n; ++i) {
        const float x = from[i];
        const bool unbounded = x == infinity || x == -infinity, none = x != x;
        const float finite = unbounded || none ? 0 : x * inverse;
        const float near = (std::min(std::max(finite, -most), most) + round) - round;
        const int code = static_cast<int>(near);
        const int sign = x < 0 ? -infinite : infinite;
        to[i] = static_cast<std::int8_t>(none ? not_a_number : unbounded ? sign : code);
    }
}

inline void unpack_int8(float* to, const std::int8_t* from, int n, float scale) noexcept {
#pragma omp simd
    for (int i = 0; i < n; ++i) {
        const std::int8_t code = from[i];
        auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(code) * scale);
        bits = code == infinite ? 0x7f800000 : bits;
        bits = code == -infinite ? 0xff800000 : bits;
        bits = code == not_a_number ? 0x7fc00000 : bits;
        to[i] = std::bit_cast<float>(bits);
    }
}

// Encodes one block of floats. `to` is the place of the block in the encoded bytes.
template <vectors V>
inline void pack_block(std::byte* to, const float* from, int n, wire_type as) noexcept {
    if (as == wire_type::int8) {
        const float scale = scale_of(from, n);
        std::memcpy(to, &scale, sizeof scale);
        return pack_int8(reinterpret_cast<std::int8_t*>(to + sizeof scale), from, n, scale);
    }
    std::array<std::uint16_t, wire_block> halves;
    if (as == wire_type::bfloat16) pack_bfloat16(halves.data(), from, n);
    else narrow<V>(reinterpret_cast<float16*>(halves.data()), from, n);
    std::memcpy(to, halves.data(), 2 * static_cast<std::size_t>(n));
}

template <vectors V>
inline void unpack_block(float* to, const std::byte* from, int n, wire_type as) noexcept {
    if (as == wire_type::int8) {
        float scale;
        std::memcpy(&scale, from, sizeof scale);
        return unpack_int8(to, reinterpret_cast<const std::int8_t*>(from + sizeof scale), n, scale);
    }
    std::array<std::uint16_t, wire_block> halves;
    std::memcpy(halves.data(), from, 2 * static_cast<std::size_t>(n));
    if (as == wire_type::bfloat16) unpack_bfloat16(to, halves.data(), n);
    else widen<V>(to, reinterpret_cast<const float16*>(halves.data()), n);
}

// Encodes or decodes elements of any alignment, block by block. T is a real floating-point type.
template <bool encodes, vectors V, class T>
inline void convert_typed(std::byte* to, const std::byte* from, std::int64_t count, wire_type as) {
    std::array<T, wire_block> elements;
    std::array<float, wire_block> floats;
    for (std::int64_t begin = 0; begin < count; begin += wire_block) {
        const auto n = static_cast<int>(std::min(wire_block, count - begin));
        const std::int64_t offset = begin * static_cast<std::int64_t>(sizeof(T)), encoded = wire_bytes(as, begin);
        const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
        if constexpr (encodes) {
            std::memcpy(elements.data(), from + offset, bytes);
            for (int i = 0; i < n; ++i) floats[at(i)] = static_cast<float>(elements[at(i)]);
            pack_block<V>(to + encoded, floats.data(), n, as);
        } else {
            unpack_block<V>(floats.data(), from + encoded, n, as);
            for (int i = 0; i < n; ++i) elements[at(i)] = static_cast<T>(floats[at(i)]);
            std::memcpy(to + offset, elements.data(), bytes);
        }
    }
}

using conversion = void (*)(std::byte* to, const std::byte* from, std::int64_t count, wire_type as);

#if defined(__x86_64__)
template <bool encodes, class T>
[[TERRACE_WIDE, gnu::flatten]] void convert_wide(std::byte* to, const std::byte* from, std::int64_t count,
                                                 wire_type as) {
    convert_typed<encodes, vectors::wide, T>(to, from, count, as);
}
#else
template <bool encodes, class T>
constexpr conversion convert_wide = convert_typed<encodes, vectors::plain, T>;
#endif

template <bool encodes>
void convert(void* to, const void* from, std::int64_t count, element_type type, wire_type as, vectors v) noexcept {
    with_type(type, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_real(element_type_of<T>)) {
            const conversion run =
                v == vectors::wide ? convert_wide<encodes, T> : convert_typed<encodes, vectors::plain, T>;
            run(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), count, as);
        }
    });
}

}  // namespace

bool is_encoded(element_type type, wire_type as) noexcept {
    return is_real(type) && wire_ratio(as, static_cast<std::int64_t>(size_of(type))) < 1;
}

void encode(void* to, const void* from, std::int64_t count, element_type type, wire_type as, vectors v) noexcept {
    convert<true>(to, from, count, type, as, v);
}

void add_rounding_errors(void* errors, const void* from, const void* encoded, range some, double weight,
                         element_type type, wire_type as) noexcept {
    with_type(type, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_real(element_type_of<T>)) {
            using wide = accumulator_t<T>;
            T* sum = static_cast<T*>(errors);
            const T* given = static_cast<const T*>(from);
            std::array<float, wire_block> carried;
            for (std::int64_t begin = some.begin / wire_block * wire_block; begin < some.end; begin += wire_block) {
                const std::byte* block = static_cast<const std::byte*>(encoded) + wire_bytes(as, begin);
                const std::int64_t end = std::min(some.end, begin + wire_block);
                unpack_block<vectors::plain>(carried.data(), block, static_cast<int>(end - begin), as);
                for (std::int64_t i = std::max(some.begin, begin); i < end; ++i) {
                    const wide lost = static_cast<wide>(given[i]) - static_cast<wide>(carried[at(i - begin)]);
                    if (std::isfinite(lost))
                        sum[i] = static_cast<T>(static_cast<wide>(sum[i]) + static_cast<wide>(weight) * lost);
                }
            }
        }
    });
}

void decode(void* to, const void* from, std::int64_t count, element_type type, wire_type as, vectors v) noexcept {
    convert<false>(to, from, count, type, as, v);
}

}  // namespace terrace::detail
