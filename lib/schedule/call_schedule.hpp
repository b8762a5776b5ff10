#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/block_layout.hpp"
#include "schedule/block_steps.hpp"
#include "schedule/collective_call.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

/// The groups of one chunk of a call, and the source of each rank's schedule. The runtime, the simulator, the proofs
/// and the tests make schedules in no other way.
class call_layout {
public:
    static constexpr int all_ranks = -1;

    /// @param chunk a call that is one chunk
    /// @param rank the rank whose schedule is wanted, which costs less, or all_ranks
    /// @throws stage_error, plan_error as compose() and compose_blocks() do
    call_layout(const hierarchy& machine, std::span<const stage> stages, collective_call chunk, int rank = all_ranks);

    /// Returns a rank's schedule for a transport with these capabilities. Stages in shared memory become messages if
    /// the vector does not fit a lane slot.
    /// @param home buffer of the vector if such stages read it; `recv` if peers can access the caller's memory
    schedule schedule_of(int rank, const capabilities& can = {}, buffer home = buffer::scratch) const;
    /// Returns the schedule before it is lowered, for a transport that runs no stages itself.
    schedule generated_for(int rank) const;

    const collective_call& call() const noexcept { return call_; }
    /// Returns the groups and owners, for the constructor's rank or for all ranks.
    const composition& groups() const noexcept { return layout_.c; }
    /// Returns the same with the places of the blocks in the vector, for collectives with blocks. In an exchange the
    /// vector has one element for each rank.
    const block_layout& block_groups() const noexcept { return layout_; }

private:
    collective_call call_;
    block_layout layout_;  // blocks only for collectives with blocks; in an exchange, one element for each rank
    tree shape_;           // for an exchange: a level for each stage
    std::vector<std::int64_t> begins_;
};

/// The schedules that one rank runs in a call.
struct call_schedules {
    slicing chunks;
    int lanes = 1;
    schedule full, tail;  ///< for all chunks but the last, and for the last; only `tail` if there is one chunk
    block_steps steps = {};
};

/// Cuts a call into chunks by its rule, and returns the schedules of a rank for them.
call_schedules schedules_of(const hierarchy& machine, const rule& chosen, const collective_call& call, int rank,
                            const capabilities& can, buffer home, const chunk_limits& limits);

}  // namespace terrace::detail
