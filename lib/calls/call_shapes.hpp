#pragma once

#include <concepts>

#include <terrace/types.hpp>

#include "control/call_order/signature.hpp"

namespace terrace::detail {

// The shapes of the public calls.

/// @param size of the vector or of each block, or the counts of all blocks
template <class Size>
call_shape transfer_of(collective what, const Size& size, element_type type, int root = 0) {
    call_shape made{.what = what, .counts = {}, .type = type, .root = root};
    if constexpr (std::integral<Size>) made.count = size;
    else made.counts.assign(size.begin(), size.end());
    return made;
}

template <class Size>
call_shape reduction_of(collective what, const Size& size, element_type type, reduction op, int root = 0) {
    call_shape made = transfer_of(what, size, type, root);
    made.op = op.op();
    made.exact = !row_of(what).has_root() && op.is_exact();
    return made;
}

// By the time that a rank knows the maximum, every rank has given its element.
inline call_shape barrier_shape() {
    call_shape made = reduction_of(collective::allreduce, 1, element_type::uint8, exact(reduce_op::max));
    made.is_barrier = true;
    return made;
}

}  // namespace terrace::detail
