#pragma once

#include <concepts>
#include <cstdint>
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

// Products have the same bits whatever the sign.
template <class T>
struct unsigned_like {
    using type = T;
};
template <std::signed_integral T>
struct unsigned_like<T> : std::make_unsigned<T> {};

template <class T, class Op, class Call>
auto with_shape(int k, const Call& call) {
    return k == 2 ? call.template run<T, Op, two>() : call.template run<T, Op, many>();
}

template <class T, class Call>
auto with_op(reduce_op op, int k, const Call& call) {
    switch (op) {
        case reduce_op::prod: return with_shape<typename unsigned_like<T>::type, arithmetic::prod>(k, call);
        case reduce_op::min: return with_shape<T, arithmetic::min>(k, call);
        case reduce_op::max: return with_shape<T, arithmetic::max>(k, call);
        case reduce_op::sum:
        case reduce_op::avg: break;
    }
    return with_shape<T, arithmetic::sum>(k, call);
}

/// call.run<T, Op, Shape>() of the kernel for these.
template <class Call>
auto with_kernel(element_type type, reduce_op op, int k, const Call& call) {
    return with_type(type, [&]<class T>(std::type_identity<T>) { return with_op<T>(op, k, call); });
}

}  // namespace terrace::detail::gpu
