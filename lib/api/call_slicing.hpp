#pragma once

#include <cstddef>

#include "api/signature.hpp"
#include "plan/plan_data.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

/// What a transport requires of the chunks of a call.
struct chunk_limits {
    std::size_t slot_bytes = 0;   ///< the most bytes of a chunk that stages in lane slots can hold; 0: no limit
    bool divides_evenly = false;  ///< collectives of NCCL run only chunks that all ranks have equal parts of
};

/// Cuts a call into chunks by its rule. A call with blocks of given counts is one chunk, since blocks of different
/// counts have no common part.
/// @param ranks of the communicator
slicing slice_call(const call_shape& call, const rule& chosen, int ranks, const chunk_limits& limits);

}  // namespace terrace::detail
