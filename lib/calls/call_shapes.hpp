#pragma once

#include <cstdint>
#include <span>

#include <terrace/types.hpp>

#include "control/call_order/signature.hpp"

namespace terrace::detail {

// The shapes of the public calls.

inline call_shape reduction_of(collective what, std::int64_t count, element_type type, reduction op, int root = 0) {
    return {.what = what,
            .count = count,
            .counts = {},
            .type = type,
            .op = op.op(),
            .root = root,
            .exact = !row_of(what).has_root() && op.is_exact()};
}

inline call_shape reduce_scatter_of(std::span<const std::int64_t> counts, element_type type, reduction op) {
    return {.what = collective::reduce_scatter,
            .counts = {counts.begin(), counts.end()},
            .type = type,
            .op = op.op(),
            .exact = op.is_exact()};
}

inline call_shape transfer_of(collective what, std::int64_t count, element_type type, int root = 0) {
    return {.what = what, .count = count, .counts = {}, .type = type, .root = root};
}

inline call_shape transfer_of(collective what, std::span<const std::int64_t> counts, element_type type, int root = 0) {
    return {.what = what, .counts = {counts.begin(), counts.end()}, .type = type, .root = root};
}

// By the time that a rank knows the maximum, every rank has given its element.
inline call_shape barrier_shape() {
    return {.what = collective::allreduce,
            .count = 1,
            .counts = {},
            .type = element_type::uint8,
            .op = reduce_op::max,
            .is_barrier = true,
            .exact = true};
}

}  // namespace terrace::detail
