#pragma once

#include <cstdint>
#include <vector>

#include "api/signature.hpp"
#include "plan/plan_data.hpp"
#include "schedule/lower.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

/// What a rank of a communicator does in a call, by its plan: the same for every executor.
struct binding {
    const plan_data& plan;
    int rank;                              ///< of the plan
    const std::vector<int>& callers_rank;  ///< by rank of the plan

    /// Of all blocks together, where there are blocks.
    std::int64_t elements_of(const call_shape& call) const;
    const rule& rule_of(const call_shape& call) const;

    /// The schedule of `count` elements of the vector, or of each block; of the call's own counts where it has some.
    /// @param can what the transport runs of it by itself   @param home of a vector that stages of its read
    schedule schedule_of(const call_shape& call, const rule& chosen, std::int64_t count, const capabilities& can,
                         buffer home) const;
    /// How many elements the vector of that schedule has.
    std::int64_t vector_of(const call_shape& call, std::int64_t count) const;

private:
    schedule vector_schedule(const call_shape& call, const rule& chosen, std::int64_t count, const capabilities& can,
                             buffer home) const;
    schedule block_schedule(const call_shape& call, const rule& chosen, std::int64_t count,
                            const capabilities& can) const;
};

}  // namespace terrace::detail
