#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/limit.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Where a time comes from: for `terrace explain`.
struct stage_cost {
    double time = 0;     ///< of the stage alone, up and down, for one chunk, latency included [s]
    double latency = 0;  ///< start-ups in it [s]
};
struct link_cost {
    int row = 0;       ///< of link_rows
    int child = 0;     ///< of the row, over the whole machine: the busiest
    double bytes = 0;  ///< through it in its busier direction, in the whole call
    double time = 0;   ///< bytes / rate [s]
};
struct prediction {
    double time = 0;  ///< [s]
    std::vector<stage_cost> stages;
    std::vector<link_cost> links;  ///< the busiest link of each row
    double cpu_time = 0;           ///< of the busiest rank: messages and reductions [s]
};

/// One way to run a collective: a rule without its bound.
struct candidate {
    std::string origin;  ///< that of a baseline, "staged" (scatter only) or "mixed"
    std::vector<stage> stages;

    bool is_baseline() const noexcept { return origin != "staged" && origin != "mixed"; }
    bool only_scatters() const {
        return std::ranges::all_of(stages, [](const stage& s) { return s.how == mode::scatter; });
    }
};

// In all that follows `bytes` are those of the vector, where there are blocks those of a rank's blocks together;
// the root of broadcast and reduce is rank 0.

/// All candidates the planner considers for a machine, in a fixed order, the collective's baselines first.
std::vector<candidate> candidates(const hierarchy& machine, collective what = collective::allreduce);

/// The baselines by name. One that a machine cannot tell apart (two-level where there is one level) is still what the
/// name says.
///
///             | allreduce                     | reduce_scatter, allgather | broadcast, reduce
///   flat-ring | ring over all ranks           | ring over all ranks       | chain over all ranks, origin "flat-chain"
///   two-level | root in the node, ring among  | scatter in the node, ring | root in the node, tree among nodes
///             | the roots                     | over the rest             |
///   flat-rings and two-level-nics are the same with a ring for each rank of a node, so that all NICs are in use:
///             | rings over all ranks; scatter | rings over all ranks;      | chains over all ranks, "flat-chains";
///             | in the node, ring outside     | scatter in the node, ring  | no two-level-nics
///   central   | root over all ranks, direct   | none: nobody has all      | root over all ranks, direct
///
/// alltoall, gather and scatter have one baseline, "direct": each block goes straight to its rank.
///
/// What runs in the node is whatever is fastest at 1 MiB: shared memory where ranks have it.
/// @throws usage_error for other names
candidate baseline(const hierarchy& machine, std::string_view name, collective what = collective::allreduce);

/// Section 6 of the design: time of a call with `lanes` chunks of `chunk` bytes in flight (chunk 0: all).
prediction predict(const hierarchy& machine, const std::vector<stage>& stages, std::int64_t bytes, int lanes,
                   std::int64_t chunk, collective what = collective::allreduce);

/// The rules that run `c` for messages around these sizes: lanes and chunk by the one rule that all algorithms share.
std::vector<rule> tuned(const hierarchy& machine, const candidate& c, std::span<const std::int64_t> sizes,
                        collective what = collective::allreduce);

/// The candidates with their tuned rules, fastest first.
struct ranked {
    candidate what;
    rule how;
};
std::vector<ranked> rank_candidates(const hierarchy& machine, std::int64_t bytes,
                                    collective what = collective::allreduce);

/// Rules for all sizes made of one baseline alone, or of the best scatter-only candidates ("staged"). All are exact.
/// @throws usage_error if the collective has none of that name
std::vector<rule> rules_for(const hierarchy& machine, std::string_view origin, collective what = collective::allreduce);

/// Takes a collective's rules as soon as they are made, while those of others still are: in several threads at a time.
using rules_made = std::function<void(collective, const std::vector<rule>&)>;

/// A whole plan, with rules for every collective. Deterministic: same machine, same bytes out.
/// @param reproducible it is for communicators with options::reproducible: reductions have the rules that suit those
plan_data make_plan(const std::string& name, const hierarchy& machine, bool reproducible = false,
                    const rules_made& made = {});

/// The plan with rules of these collectives for another machine, of the same shape. Others keep theirs.
plan_data replanned(plan_data p, const hierarchy& machine, std::span<const collective> some, bool reproducible = false);

/// A plan of the candidates in one place by price, 0 for the cheapest, at every size: to be measured beside the plan.
plan_data plan_by_place(const std::string& name, const hierarchy& machine, std::size_t place);

}  // namespace terrace::detail
