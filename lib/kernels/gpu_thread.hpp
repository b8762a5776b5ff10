#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/gpu_shapes.hpp"

#ifdef __CUDACC__
#    define TERRACE_EITHER_SIDE __host__ __device__
#else
#    define TERRACE_EITHER_SIDE
#endif
#ifdef __CUDA_ARCH__
#    define TERRACE_UNROLLED _Pragma("unroll")
#    define TERRACE_ROLLED _Pragma("unroll 1")
#else
#    define TERRACE_UNROLLED
#    define TERRACE_ROLLED
#endif

// Work of one thread of a k-input reduction on a GPU. Also compiled for processors, where a test runs the threads of a
// launch one after another.
//
//      head   | tiles: whole blocks, `unrolled` vectors a thread | rest: vectors | tail
//      -------|--------------------------------------------------|---------------|------
//      by one | 16 bytes, all loads of a batch before the first  | 16 bytes each | by one
//             | use                                              |               |
//
// Behind the head, dst is aligned to 16 bytes. If a source is not, there are no tiles. Each vector of that source is
// assembled from the two aligned vectors that contain it. Head and tail are then longer by one vector, so these two lie
// inside the source.

namespace terrace::detail::gpu {

struct alignas(16) vector {
    std::uint32_t words[4];
};
template <class T>
inline constexpr int per_vector = sizeof(vector) / sizeof(T);

/// Parameters that are the same for every thread.
struct task {
    void* dst;
    std::int64_t count;    // [elements]
    std::int64_t head;     // [elements]
    std::int64_t vectors;  // behind the head; the rest is the tail
    std::int64_t tiled;    // vectors in whole tiles
    int k, divisor;
};

/// The position of a thread in a launch: `block` of `blocks`, and in each block `thread` of `threads`.
struct thread_position {
    std::int64_t block, blocks;
    int thread, threads;
};

inline std::uint32_t misaligned(const void* p) noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p) & (sizeof(vector) - 1));
}

/// Divides a reduction into head, vectors and tail. @param element [bytes]   @param tile [vectors]
inline task part(void* dst, const void* const* sources, int k, std::int64_t count, std::size_t element, int divisor,
                 int tile) noexcept {
    const auto per_vector = static_cast<std::int64_t>(sizeof(vector) / element);
    bool shifted = false;
    for (int s = 0; s < k; ++s) shifted |= misaligned(sources[s]) != misaligned(dst);
    const std::int64_t spare = shifted ? per_vector : 0;
    // Complex numbers need not be aligned to their size. If dst is not, all elements belong to the head.
    if (misaligned(dst) % element != 0) return {dst, count, count, 0, 0, k, divisor};
    const auto to_boundary = static_cast<std::int64_t>(((0u - misaligned(dst)) & (sizeof(vector) - 1)) / element);
    task t{dst, count, to_boundary + spare, 0, 0, k, divisor};
    if (count > t.head + spare) t.vectors = (count - t.head - spare) / per_vector;
    if (!shifted) t.tiled = t.vectors / tile * tile;
    return t;
}

/// Returns the number of blocks with which a thread has at most one vector and one element of head and tail.
inline std::int64_t blocks(const task& t, std::size_t element) noexcept {
    const std::int64_t outside = t.count - t.vectors * static_cast<std::int64_t>(sizeof(vector) / element);
    return ((t.vectors > outside ? t.vectors : outside) + threads - 1) / threads;
}

// Loads a vector. Inputs that are read once and not soon again may leave the caches first; results stay in the caches,
// since they are sent next. Both functions use intrinsics, since the compiler may split other accesses of 16 bytes.
template <bool once>
TERRACE_EITHER_SIDE inline vector load(const vector* p) noexcept {
#ifdef __CUDA_ARCH__
    const auto* at = reinterpret_cast<const uint4*>(p);
    const uint4 v = once ? __ldcs(at) : __ldca(at);
    return {{v.x, v.y, v.z, v.w}};
#else
    return *p;
#endif
}

TERRACE_EITHER_SIDE inline void store(vector* p, const vector& v) noexcept {
#ifdef __CUDA_ARCH__
    __stwb(reinterpret_cast<uint4*>(p), make_uint4(v.words[0], v.words[1], v.words[2], v.words[3]));
#else
    *p = v;
#endif
}

// Loads 16 bytes from any address. Both aligned vectors must lie inside the buffer. Neighbouring threads share one.
TERRACE_EITHER_SIDE inline vector load_anywhere(const std::byte* p) noexcept {
    const auto shift = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p) & (sizeof(vector) - 1));
    const auto* at = reinterpret_cast<const vector*>(p - shift);
    if (shift == 0) return load<false>(at);
    const vector low = load<false>(at), high = load<false>(at + 1);
    const std::uint32_t words[8] = {low.words[0],  low.words[1],  low.words[2],  low.words[3],
                                    high.words[0], high.words[1], high.words[2], high.words[3]};
    // Shifts by 8 bytes, then by 4, then within words: only arrays with constant indices stay in registers.
    std::uint32_t six[6], five[5];
    for (int i = 0; i < 6; ++i) six[i] = shift & 8 ? words[i + 2] : words[i];
    for (int i = 0; i < 5; ++i) five[i] = shift & 4 ? six[i + 1] : six[i];
    const std::uint32_t bits = shift % 4 * 8;
    vector v;
    for (int i = 0; i < 4; ++i)
        v.words[i] = static_cast<std::uint32_t>((std::uint64_t{five[i + 1]} << 32 | five[i]) >> bits);
    return v;
}

// Widens a short float, by an instruction if there is one. Instructions round like types.hpp.
template <class T>
TERRACE_EITHER_SIDE inline arithmetic::wide_t<T> widened(T x) noexcept {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float16>) {
        float f;
        asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
        return f;
    } else
#endif
        return static_cast<arithmetic::wide_t<T>>(x);
}

// Rounds to a short float in the same way. The instructions would change a canonical NaN, so NaN is set separately.
template <class T>
TERRACE_EITHER_SIDE inline T narrowed(arithmetic::wide_t<T> x) noexcept {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float16>) {
        float16 h;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
        if (x != x) h.bits = 0x7e00;
        return h;
    }
#    if __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<T, bfloat16>) {
        bfloat16 b;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(x));
        if (x != x) b.bits = 0x7fc0;
        return b;
    }
#    endif
#endif
    return static_cast<T>(x);
}

// True for the kernel of sum and avg. Its partial sums of an average are not divided.
template <class Op>
inline constexpr bool averages = std::is_same_v<Op, arithmetic::sum>;

/// Partial result of a vector: in float for short floats, else packed as in memory, so short integers stay packed.
template <class T>
class partial {
    using wide = arithmetic::wide_t<T>;
    static constexpr bool packed = std::is_same_v<T, wide>;
    static constexpr int lanes = per_vector<T>;
    struct narrow_lanes {
        T of[lanes];
    };
    struct wide_lanes {
        wide of[lanes];
    };
    std::conditional_t<packed, vector, wide_lanes> value_{};

    TERRACE_EITHER_SIDE static wide_lanes unpacked(const vector& v) noexcept {
        const auto in = std::bit_cast<narrow_lanes>(v);
        wide_lanes out;
        for (int i = 0; i < lanes; ++i) out.of[i] = widened<T>(in.of[i]);
        return out;
    }
    TERRACE_EITHER_SIDE wide_lanes value() const noexcept {
        if constexpr (packed) return unpacked(value_);
        else return value_;
    }

public:
    TERRACE_EITHER_SIDE void start(const vector& v) noexcept {
        if constexpr (packed) value_ = v;
        else value_ = unpacked(v);
    }
    template <class Op>
    TERRACE_EITHER_SIDE void add(const vector& v) noexcept {
        wide_lanes result = value();
        const wide_lanes next = unpacked(v);
        for (int i = 0; i < lanes; ++i) result.of[i] = Op::of(result.of[i], next.of[i]);
        if constexpr (packed) value_ = std::bit_cast<vector>(result);
        else value_ = result;
    }
    template <class Op>
    TERRACE_EITHER_SIDE vector finished(int divisor) const noexcept {
        const wide_lanes result = value();
        narrow_lanes out;
        const auto by = static_cast<arithmetic::divisor_t<T>>(divisor);
        for (int i = 0; i < lanes; ++i) out.of[i] = narrowed<T>(arithmetic::finished<Op, T>(result.of[i], by));
        return std::bit_cast<vector>(out);
    }
};

/// Combines `Unrolled` vectors, `stride` apart. Loads `Batch` sources at once; if that is 2, there are only 2 sources.
template <class T, class Op, int Batch, int Unrolled, bool Aligned>
TERRACE_EITHER_SIDE inline void combine(const task& t, const void* const* sources, std::int64_t first,
                                        int stride) noexcept {
    const int k = Batch == 2 ? 2 : t.k;
    const auto element = [&](int u) { return t.head + (first + std::int64_t{u} * stride) * per_vector<T>; };
    partial<T> result[Unrolled];
    TERRACE_ROLLED
    for (int from = 0; from < k; from += Batch) {
        vector loaded[Batch][Unrolled];
        TERRACE_UNROLLED
        for (int s = 0; s < Batch; ++s) {
            if (from + s >= k) break;
            TERRACE_UNROLLED
            for (int u = 0; u < Unrolled; ++u) {
                const T* at = static_cast<const T*>(sources[from + s]) + element(u);
                if constexpr (Aligned) loaded[s][u] = load<true>(reinterpret_cast<const vector*>(at));
                else loaded[s][u] = load_anywhere(reinterpret_cast<const std::byte*>(at));
            }
        }
        TERRACE_UNROLLED
        for (int s = 0; s < Batch; ++s) {
            if (from + s >= k) break;
            TERRACE_UNROLLED
            for (int u = 0; u < Unrolled; ++u)
                if (from + s == 0) result[u].start(loaded[s][u]);
                else result[u].template add<Op>(loaded[s][u]);
        }
    }
    const auto at = [&](int u) { return reinterpret_cast<vector*>(static_cast<T*>(t.dst) + element(u)); };
    if (averages<Op> && t.divisor != 1) {
        TERRACE_UNROLLED
        for (int u = 0; u < Unrolled; ++u) store(at(u), result[u].template finished<arithmetic::avg>(t.divisor));
    } else {
        TERRACE_UNROLLED
        for (int u = 0; u < Unrolled; ++u) store(at(u), result[u].template finished<Op>(1));
    }
}

/// Computes dst[i] alone.
template <class T, class Op, int Batch>
TERRACE_EITHER_SIDE inline void combine_one(const task& t, const void* const* sources, std::int64_t i) noexcept {
    const int k = Batch == 2 ? 2 : t.k;
    auto result = widened<T>(static_cast<const T*>(sources[0])[i]);
    TERRACE_ROLLED
    for (int s = 1; s < k; ++s) result = Op::of(result, widened<T>(static_cast<const T*>(sources[s])[i]));
    const auto by = static_cast<arithmetic::divisor_t<T>>(t.divisor);
    result = averages<Op> && t.divisor != 1 ? arithmetic::finished<arithmetic::avg, T>(result, by)
                                            : arithmetic::finished<Op, T>(result, 1);
    static_cast<T*>(t.dst)[i] = narrowed<T>(result);
}

/// Computes one thread's share. Op is sum for avg, too. Only one thread reads and writes an element of dst, so dst may
/// be a source.
template <class T, class Op, int Batch, int Unrolled>
TERRACE_EITHER_SIDE inline void reduce(const task& t, const void* const* sources, const thread_position& at) noexcept {
    const std::int64_t tile = std::int64_t{at.threads} * Unrolled, threads = at.blocks * at.threads;
    const std::int64_t thread = at.block * at.threads + at.thread;
    TERRACE_ROLLED
    for (std::int64_t v = at.block * tile + at.thread; v < t.tiled; v += at.blocks * tile)
        combine<T, Op, Batch, Unrolled, true>(t, sources, v, at.threads);
    TERRACE_ROLLED
    for (std::int64_t v = t.tiled + thread; v < t.vectors; v += threads)
        combine<T, Op, Batch, 1, false>(t, sources, v, 0);
    const std::int64_t inside = t.vectors * per_vector<T>;
    TERRACE_ROLLED
    for (std::int64_t i = thread; i < t.count - inside; i += threads)
        combine_one<T, Op, Batch>(t, sources, i < t.head ? i : i + inside);
}

}  // namespace terrace::detail::gpu

#undef TERRACE_EITHER_SIDE
#undef TERRACE_UNROLLED
#undef TERRACE_ROLLED
