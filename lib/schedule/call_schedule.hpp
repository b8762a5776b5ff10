#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/block_layout.hpp"
#include "schedule/block_steps.hpp"
#include "schedule/collective_call.hpp"
#include "schedule/slice.hpp"

namespace terrace::detail {

/// The groups of one chunk of a call, and from them the schedule of each rank: the only way from a call to what a rank
/// runs. The runtime, the simulator, the proofs and the tests all use it.
class call_layout {
public:
    static constexpr int all_ranks = -1;

    /// @param chunk a call that is one chunk
    /// @param rank the one rank whose schedule is wanted, which costs less, or all_ranks
    /// @throws stage_error, plan_error as compose() and compose_blocks() do
    call_layout(const hierarchy& machine, std::span<const stage> stages, collective_call chunk, int rank = all_ranks);

    /// Returns what a rank runs on a transport with these capabilities. The transport's own stages are left out if the
    /// vector does not fit its lane slots.
    /// @param home where the vector lies if such stages read it; `recv` if peers reach the caller's memory
    schedule schedule_of(int rank, const capabilities& can = {}, buffer home = buffer::scratch) const;
    /// Returns it before it is lowered for a transport, for one that runs no stages.
    schedule generated_for(int rank) const;

    const collective_call& call() const noexcept { return call_; }
    /// Returns the groups, and who owns what, by the rank that was asked for or by all.
    const composition& groups() const noexcept { return layout_.c; }
    /// Returns the same with the blocks as they lie in the vector, for collectives with blocks; of an exchange one
    /// element for each rank.
    const block_layout& block_groups() const noexcept { return layout_; }

private:
    collective_call call_;
    block_layout layout_;  // without blocks for collectives without; of an exchange, of one element for each rank
    tree shape_;           // of an exchange: a level for each stage
    std::vector<std::int64_t> begins_;
};

/// The schedules that one rank runs in a call.
struct call_schedules {
    slicing chunks;
    int lanes = 1;
    schedule full, tail;  ///< of a chunk and of the last chunk; only `tail` if there is one chunk
    block_steps steps = {};
};

/// Cuts a call into chunks by its rule, and returns the schedules of a rank for them.
call_schedules schedules_of(const hierarchy& machine, const rule& chosen, const collective_call& call, int rank,
                            const capabilities& can, buffer home, const chunk_limits& limits);

}  // namespace terrace::detail
