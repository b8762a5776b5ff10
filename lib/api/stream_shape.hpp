#pragma once

#include <terrace/nccl.hpp>

#include "api/signature.hpp"

namespace terrace {

/// The shape of a call on a stream, of a rank of `comm`. @throws usage_error where its buffers do not fit each other
call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    reduce_op op = reduce_op::sum, int root = 0);

}  // namespace terrace
