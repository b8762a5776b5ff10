#pragma once

#include <concepts>
#include <type_traits>

#include <terrace/types.hpp>

#include "base/element_types.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/gpu_reduce.hpp"

// Kernels that are compiled for GPUs: types x operations x shapes, without duplicates.

namespace terrace::detail::gpu {

inline constexpr int threads = 256;  // per block

// Shape of a kernel: sources that are read at once, and vectors of each. A step of a ring has two sources. Then 4
// blocks x 256 threads x 8 loads x 16 bytes = 128 KiB are in flight per multiprocessor; with more sources, 96 KiB.
// Memory that delivers 4.8 TB/s after 800 ns to 132 multiprocessors needs 29 KiB in flight on each. The surplus hides
// the time between two batches. With 4 blocks a thread has 64 registers, with 3 it has 80.
struct two {
    static constexpr int batch = 2, unrolled = 4, most = 2, blocks = 4;
};
struct many {
    static constexpr int batch = 4, unrolled = 2, most = most_gpu_sources, blocks = 3;
};

// Operation of a kernel. All sums share one kernel, since they differ only in the division of avg.
template <class Op>
using kernel_op = std::conditional_t<std::is_base_of_v<arithmetic::sum, Op>, arithmetic::sum, Op>;

// True if signed and unsigned integers give different bits. A sum does, since its kernel also divides for avg.
template <class Op>
inline constexpr bool depends_on_sign =
    std::is_same_v<Op, arithmetic::sum> || std::is_same_v<Op, arithmetic::min> || std::is_same_v<Op, arithmetic::max>;

// Returns the type of a kernel: unsigned if the sign is irrelevant, the parts of complex numbers if these do not mix.
template <class Op, class T>
constexpr auto kernel_type() noexcept {
    if constexpr (std::signed_integral<T> && !depends_on_sign<Op>) return std::type_identity<std::make_unsigned_t<T>>();
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
    __builtin_unreachable();  // calls of other operations have been refused
}

/// Calls call.run<T, Op, Shape>(parts) for the kernel of a type, an operation and k sources. The operation must be
/// defined for the type. `parts` is the number of elements of the kernel in one element.
template <class Call>
auto with_kernel(element_type type, reduce_op op, int k, const Call& call) {
    return with_type(type, [&]<class T>(std::type_identity<T>) { return with_op<T>(op, k, call); });
}

}  // namespace terrace::detail::gpu
