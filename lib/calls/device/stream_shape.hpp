#pragma once

#include <cstdint>
#include <span>

#include <terrace/device.hpp>

#include "control/call_order/signature.hpp"

namespace terrace::detail {

/// Returns the shape of a call on a stream, of a rank of `comm`.
/// @throws usage_error where the counts of its buffers contradict each other
call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    reduce_op op = reduce_op::sum, int root = 0);

/// Returns the shape of a call with blocks of the given counts, by rank.
/// @throws usage_error where the counts of its buffers contradict them
call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    std::span<const std::int64_t> counts, reduce_op op = reduce_op::sum);

}  // namespace terrace::detail
