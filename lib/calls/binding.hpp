#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/call_order/signature.hpp"
#include "plan/plan_data.hpp"
#include "schedule/call_schedule.hpp"

namespace terrace::detail {

/// Returns true for a rule of an exchange whose messages go directly from source to destination. Each message is then a
/// block, or the part of a block in one chunk.
inline bool is_straight(const rule& r) noexcept { return r.stages.size() == 1 && r.stages[0].how == mode::scatter; }

/// A rank of a communicator in its plan: the rule and the schedules of each call, the same for every executor.
struct binding {
    const plan_data& plan;
    int rank;                              ///< in the plan's numbering
    const std::vector<int>& callers_rank;  ///< the caller's rank numbers, by rank of the plan
    bool reproducible = false;             ///< options::reproducible
    bool rounds_on_wire = false;           ///< options::rounds_on_wire

    /// Returns true if the call is reduced by the tree over the ranks, in the caller's numbering.
    bool uses_tree(const call_shape& call) const;
    /// Returns true if stages of the call round on the wire: options allow this, and its rule has wire types.
    bool meets_wire_types(const call_shape& call) const;
    /// Returns why a call that meets wire types cannot be rounded, with what to do; empty if it can, or meets none.
    std::string objection_to_wire(const call_shape& call) const;
    /// Returns the elements of the vector, or of all blocks together.
    std::int64_t elements_of(const call_shape& call) const { return detail::elements_of(call, plan.machine.ranks()); }
    std::int64_t bytes_of(const call_shape& call) const { return detail::bytes_of(call, plan.machine.ranks()); }
    const rule& rule_of(const call_shape& call) const { return plan.choose(call.what, bytes_of(call)); }
    /// Returns the rule that the call runs by: the plan's, unless block lengths are not agreed. Such blocks go directly
    /// to their ranks, and in one piece in a gather, if skewed, or if the plan's rule is not straight.
    rule rule_to_run(const call_shape& call) const;
    /// Returns the call in the plan's numbering of ranks.
    collective_call planned(const call_shape& call) const;

    /// Returns the schedules of this rank for a call by the rule.
    /// @param can the stages that the transport runs itself   @param home the place of a vector that these stages read
    call_schedules schedules_of(const call_shape& call, const rule& chosen, const capabilities& can, buffer home,
                                const chunk_limits& limits) const {
        return detail::schedules_of(plan.machine, chosen, planned(call), rank, can, home, limits);
    }
};

}  // namespace terrace::detail
