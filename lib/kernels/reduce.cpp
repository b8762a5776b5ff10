#include "kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "base/element_types.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/convert.hpp"

namespace terrace::detail {

namespace {

using namespace arithmetic;

// Inputs that one pass combines. Each further pass reads and writes a tile of partial results again.
constexpr int fan_in = 4;

// Tile of partial results of a tree [bytes]. Each level of the tree has one.
constexpr std::size_t tree_tile = 2048;

// Tile of partial results and of converted inputs [elements], short enough to stay in the innermost cache.
template <class T>
constexpr std::int64_t tile = 2048 / sizeof(T);

// Multiplies complex numbers part by part: compilers vectorise no loop over whole complex numbers.
template <class Op, class T, int N, bool last>
inline void fold_complex(T* to, const T* const* inputs, std::int64_t n) noexcept {
    using part = part_t<T>;
    std::array<const part*, N> in;
    for (int s = 0; s < N; ++s) in[s] = reinterpret_cast<const part*>(inputs[s]);
    auto* out = reinterpret_cast<part*>(to);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
        part re = in[0][2 * i], im = in[0][2 * i + 1];
        for (int s = 1; s < N; ++s) {
            const T x = Op::of(T(re, im), T(in[s][2 * i], in[s][2 * i + 1]));
            re = x.real(), im = x.imag();
        }
        out[2 * i] = last ? canonical(re) : re;
        out[2 * i + 1] = last ? canonical(im) : im;
    }
}

// Computes to[i] = in[0][i] op ... op in[N-1][i]. Iterations may run in any order: `to` is an input or overlaps none,
// so no iteration reads the result of another.
template <class Op, class T, int N, bool last>
inline void fold(wide_t<T>* to, const wide_t<T>* const* inputs, std::int64_t n, divisor_t<T> divisor) noexcept {
    if constexpr (is_complex<T>) return fold_complex<Op, T, N, last>(to, inputs, n);
    std::array<const wide_t<T>*, N> in;
    std::copy_n(inputs, N, in.begin());
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
        wide_t<T> x = in[0][i];
        for (int s = 1; s < N; ++s) x = Op::of(x, in[s][i]);
        to[i] = last ? finished<Op, T>(x, divisor) : x;
    }
}

template <vectors V, class Op, class T>
inline void combine_typed(T* dst, const T* const* sources, int k, std::int64_t count, divisor_t<T> divisor) noexcept {
    using wide = wide_t<T>;
    constexpr bool converts = !std::is_same_v<T, wide>;
    wide result[tile<wide>], room[converts ? fan_in : 1][tile<wide>];
    const std::int64_t step = converts || k > fan_in ? tile<wide> : count;
    for (std::int64_t begin = 0; begin < count; begin += step) {
        const std::int64_t n = std::min(step, count - begin);
        const wide* in[fan_in];
        wide* to = result;
        if constexpr (!converts) to = dst + begin;
        for (int next = 0, held = 0; next < k;) {
            for (; held < fan_in && next < k; ++held, ++next) {
                if constexpr (converts) widen<V>(room[held], sources[next] + begin, n), in[held] = room[held];
                else in[held] = sources[next] + begin;
            }
            if (next < k) {  // not to dst, which may be one of the remaining sources
                fold<Op, T, fan_in, false>(result, in, n, divisor);
                in[0] = result, held = 1;
            } else if (held == 1) fold<Op, T, 1, true>(to, in, n, divisor);
            else if (held == 2) fold<Op, T, 2, true>(to, in, n, divisor);
            else if (held == 3) fold<Op, T, 3, true>(to, in, n, divisor);
            else fold<Op, T, 4, true>(to, in, n, divisor);
        }
        if constexpr (converts) narrow<V>(dst + begin, result, n);
    }
}

template <vectors V, class Op, class T>
inline void combine(void* dst, const void* const* sources, int k, std::int64_t count, int divisor) {
    // A partial sum of an average is a plain sum, without division.
    if constexpr (std::is_same_v<Op, avg>)
        if (divisor == 1) return combine<V, sum, T>(dst, sources, k, count, 1);
    if constexpr (is_complex<T> && is_by_parts<Op>) combine<V, Op, part_t<T>>(dst, sources, k, 2 * count, divisor);
    else
        combine_typed<V, Op>(static_cast<T*>(dst), reinterpret_cast<const T* const*>(sources), k, count,
                             static_cast<divisor_t<T>>(divisor));
}

template <vectors V, class T>
inline void multiply_typed(void* to, const void* from, std::int64_t count, double factor) {
    using wide = wide_t<T>;
    const auto by = static_cast<wide>(factor);
    wide product[tile<wide>];
    for (std::int64_t begin = 0; begin < count; begin += tile<wide>) {
        const std::int64_t n = std::min(tile<wide>, count - begin);
        widen<V>(product, static_cast<const T*>(from) + begin, n);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) product[i] *= by;
        narrow<V>(static_cast<T*>(to) + begin, product, n);
    }
}

using multiply_kernel = void (*)(void* to, const void* from, std::int64_t count, double factor);

// The same loops for wide vectors, all inlined. No multiply-add is fused: bits must not depend on the machine.
#if defined(__x86_64__)
template <class Op, class T>
[[TERRACE_WIDE, gnu::flatten]] void combine_wide(void* dst, const void* const* sources, int k, std::int64_t count,
                                                 int divisor) {
    combine<vectors::wide, Op, T>(dst, sources, k, count, divisor);
}

template <class T>
[[TERRACE_WIDE, gnu::flatten]] void multiply_wide(void* to, const void* from, std::int64_t count, double factor) {
    multiply_typed<vectors::wide, T>(to, from, count, factor);
}

// Every processor with AVX2 has F16C.
bool has_wide_vectors() noexcept { return __builtin_cpu_supports("avx2"); }
#else
template <class Op, class T>
constexpr reduce_kernel combine_wide = combine<vectors::plain, Op, T>;
template <class T>
constexpr multiply_kernel multiply_wide = multiply_typed<vectors::plain, T>;

bool has_wide_vectors() noexcept { return false; }
#endif

// Combines sources[0] ... sources[k - 1] into `to` by the tree, for k > 1 and at most one tile. The left part is
// combined in `to`, unless `to` may be a source (outermost).
template <reduce_kernel pair, std::size_t element, bool outermost>
void tile_by_tree(std::byte* to, const std::byte* const* sources, int k, std::int64_t offset, std::int64_t n,
                  int divisor) {
    std::byte left_room[outermost ? tree_tile : 1], right_room[tree_tile];
    const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(k - 1)));
    const void* in[] = {sources[0] + offset, sources[left] + offset};
    if (left > 1) {
        std::byte* const room = outermost ? left_room : to;
        tile_by_tree<pair, element, false>(room, sources, left, offset, n, 1);
        in[0] = room;
    }
    if (k - left > 1) {
        tile_by_tree<pair, element, false>(right_room, sources + left, k - left, offset, n, 1);
        in[1] = right_room;
    }
    pair(to, in, 2, n, divisor);
}

// Combines all sources by the tree. Each node reduces two operands.
template <reduce_kernel pair, std::size_t element>
void combine_by_tree(void* dst, const void* const* sources, int k, std::int64_t count, int divisor) {
    if (k <= 2) return pair(dst, sources, k, count, divisor);
    const auto* from = reinterpret_cast<const std::byte* const*>(sources);
    const auto most = static_cast<std::int64_t>(tree_tile / element);
    for (std::int64_t begin = 0; begin < count; begin += most) {
        const auto offset = static_cast<std::int64_t>(static_cast<std::size_t>(begin) * element);
        tile_by_tree<pair, element, true>(static_cast<std::byte*>(dst) + offset, from, k, offset,
                                          std::min(most, count - begin), divisor);
    }
}

template <class T>
reduce_kernel find_op(reduce_op op, vectors v, grouping how) noexcept {
    const auto compiled = [v](reduce_kernel plain, reduce_kernel wide) { return v == vectors::wide ? wide : plain; };
    switch (op) {
// clang-format off
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) \
        case reduce_op::name: \
            if constexpr (is_defined(reduce_op::name, element_type_of<T>)) { \
                if (how == grouping::by_tree && rounds(type_of<T>, op)) \
                    return compiled(combine_by_tree<combine<vectors::plain, name, kernel_t<T>>, sizeof(T)>, \
                                    combine_by_tree<combine_wide<name, kernel_t<T>>, sizeof(T)>); \
                return compiled(combine<vectors::plain, name, kernel_t<T>>, combine_wide<name, kernel_t<T>>); \
            } else break;
#include <terrace/reduce_ops.def>
        // clang-format on
    }
    return nullptr;
}

}  // namespace

vectors widest_vectors() noexcept { return has_wide_vectors() ? vectors::wide : vectors::plain; }

reduce_kernel find_reduce(element_type type, reduce_op op, vectors v, grouping how) noexcept {
    return with_type(type, [&]<class T>(std::type_identity<T>) { return find_op<T>(op, v, how); });
}

void multiply(void* to, const void* from, std::int64_t count, element_type type, double factor, vectors v) noexcept {
    with_type(type, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_defined(reduce_op::premul_sum, element_type_of<T>)) {
            using part = part_t<T>;
            const multiply_kernel run = v == vectors::wide ? multiply_wide<part> : multiply_typed<vectors::plain, part>;
            run(to, from, count * static_cast<std::int64_t>(sizeof(T) / sizeof(part)), factor);
        }
    });
}

}  // namespace terrace::detail
