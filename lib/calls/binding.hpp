#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/call_order/signature.hpp"
#include "plan/plan_data.hpp"
#include "schedule/call_schedule.hpp"

namespace terrace::detail {

/// True for a rule of an exchange by which each message is a block, or what a chunk has of it, on its way from the rank
/// that gives it to the one that gets it.
inline bool is_straight(const rule& r) noexcept { return r.stages.size() == 1 && r.stages[0].how == mode::scatter; }

/// A rank of a communicator in its plan: which rule and which schedules a call has, the same for every executor.
struct binding {
    const plan_data& plan;
    int rank;                              ///< of the plan
    const std::vector<int>& callers_rank;  ///< by rank of the plan
    bool reproducible = false;             ///< options::reproducible
    bool rounds_on_wire = false;           ///< options::rounds_on_wire

    /// True if the call is reduced by the tree over the ranks, in the caller's numbering.
    bool uses_tree(const call_shape& call) const;
    /// True if the call is rounded where its rule names wire types.
    bool meets_wire_types(const call_shape& call) const;
    /// Returns why such a call cannot be rounded; empty if it can, and for other calls.
    std::string objection_to_wire(const call_shape& call) const;
    /// Returns the elements of the vector, or of all blocks together.
    std::int64_t elements_of(const call_shape& call) const { return detail::elements_of(call, plan.machine.ranks()); }
    std::int64_t bytes_of(const call_shape& call) const { return detail::bytes_of(call, plan.machine.ranks()); }
    const rule& rule_of(const call_shape& call) const { return plan.choose(call.what, bytes_of(call)); }
    /// Returns what the call runs by: the plan's rule. Blocks whose lengths are not agreed go straight to their ranks,
    /// skewed ones in one piece.
    rule rule_to_run(const call_shape& call) const;
    /// Returns the call in the plan's numbering of ranks.
    collective_call planned(const call_shape& call) const;

    /// Returns what this rank runs by the rule.
    /// @param can what the transport runs of it by itself   @param home of a vector that stages of its read
    call_schedules schedules_of(const call_shape& call, const rule& chosen, const capabilities& can, buffer home,
                                const chunk_limits& limits) const {
        return detail::schedules_of(plan.machine, chosen, planned(call), rank, can, home, limits);
    }
};

}  // namespace terrace::detail
