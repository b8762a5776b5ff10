#pragma once

#include <concepts>
#include <type_traits>

#include <terrace/types.hpp>

#include "base/element_types.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/gpu_reduce.hpp"

// Which kernels there are for GPUs: types x operations x shapes, and no more than it takes.

namespace terrace::detail::gpu {

inline constexpr int threads = 256;  // of a block

// How many sources are read at once, and how many vectors of each: two are the step of a ring. In flight on a
// multiprocessor are so 4 blocks x 256 threads x 8 loads x 16 bytes = 128 KiB, or 96 KiB of more sources. Memory that
// delivers 4.8 TB/s after 800 ns to 132 multiprocessors takes 29 KiB of each; what is above that hides the time between
// two batches. 4 blocks leave a thread 64 registers, 3 leave 80.
struct two {
    static constexpr int batch = 2, unrolled = 4, most = 2, blocks = 4;
};
struct many {
    static constexpr int batch = 4, unrolled = 2, most = most_gpu_sources, blocks = 3;
};

// The operation of a kernel. One kernel is for all sums: where nothing is divided, they are one.
template <class Op>
using kernel_op = std::conditional_t<std::is_base_of_v<arithmetic::sum, Op>, arithmetic::sum, Op>;

// True where signed and unsigned integers have other bits. An average divides sums.
template <class Op>
inline constexpr bool minds_sign =
    std::is_same_v<Op, arithmetic::sum> || std::is_same_v<Op, arithmetic::min> || std::is_same_v<Op, arithmetic::max>;

// The type of a kernel: unsigned where the sign does not matter, the parts of complex numbers where they do not mix.
template <class Op, class T>
constexpr auto kernel_type() noexcept {
    if constexpr (std::signed_integral<T> && !minds_sign<Op>) return std::type_identity<std::make_unsigned_t<T>>();
    else if constexpr (arithmetic::is_by_parts<Op>) return std::type_identity<part_t<T>>();
    else return std::type_identity<arithmetic::kernel_t<T>>();
}

template <class T, class Call>
auto with_op(reduce_op op, int k, const Call& call) {
    switch (op) {
// clang-format off
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) \
        case reduce_op::name: \
            if constexpr (is_defined(reduce_op::name, element_type_of<T>)) { \
                using kernel = kernel_op<arithmetic::name>; \
                using type = typename decltype(kernel_type<kernel, T>())::type; \
                constexpr int parts = sizeof(T) / sizeof(type); \
                if (k == 2) return call.template run<type, kernel, two>(parts); \
                return call.template run<type, kernel, many>(parts); \
            } else break;
#include <terrace/reduce_ops.def>
        // clang-format on
    }
    __builtin_unreachable();  // a call is refused before
}

/// Calls call.run<T, Op, Shape>(parts) of the kernel for these; the operation is defined for the type. An element is so
/// many of the kernel's.
template <class Call>
auto with_kernel(element_type type, reduce_op op, int k, const Call& call) {
    return with_type(type, [&]<class T>(std::type_identity<T>) { return with_op<T>(op, k, call); });
}

}  // namespace terrace::detail::gpu
