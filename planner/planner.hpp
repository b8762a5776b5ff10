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

/// The time of one stage, for `terrace explain`.
struct stage_cost {
    double time = 0;     ///< of the stage alone, up and down, for one chunk, with latency [s]
    double latency = 0;  ///< start-ups in this time [s]
};
struct link_cost {
    int row = 0;       ///< index into link_rows
    int child = 0;     ///< number of the busiest child in the row, over the whole machine
    double bytes = 0;  ///< through the link in its busier direction, in the whole call
    double time = 0;   ///< bytes / rate [s]
};
struct prediction {
    double time = 0;  ///< [s]
    std::vector<stage_cost> stages;
    std::vector<link_cost> links;  ///< the busiest link of each row
    double cpu_time = 0;           ///< processor time of the busiest rank for messages and reductions [s]
};

/// One way to run a collective: a rule without its range of sizes.
struct candidate {
    std::string origin;  ///< name of the baseline, "staged" (only scatter) or "mixed"
    std::vector<stage> stages;

    bool is_baseline() const noexcept { return origin != "staged" && origin != "mixed"; }
    bool only_scatters() const {
        return std::ranges::all_of(stages, [](const stage& s) { return s.how == mode::scatter; });
    }
};

// In all functions below, `bytes` is the size of the vector; for collectives of blocks, of all blocks of a rank. The
// root of broadcast and reduce is rank 0.

/// Returns all candidates of the planner for a machine, in a fixed order, the collective's baselines first.
std::vector<candidate> candidates(const hierarchy& machine, collective what = collective::allreduce);

/// Returns a baseline by its name. A name means the same schedule on every machine, even if baselines then coincide
/// (two-level on a machine with one level).
///
///             | allreduce                     | reduce_scatter, allgather | broadcast, reduce
///   flat-ring | ring over all ranks           | ring over all ranks       | chain over all ranks, origin "flat-chain"
///   two-level | root in the node, ring among  | scatter in the node, ring | root in the node, tree among nodes
///             | the roots                     | over the rest             |
///   flat-rings and two-level-nics are the same with a ring for each rank of a node, and so use all NICs:
///             | rings over all ranks; scatter | rings over all ranks;      | chains over all ranks, "flat-chains";
///             | in the node, ring outside     | scatter in the node, ring  | no two-level-nics
///   central   | root over all ranks, direct   | none: no rank has all     | root over all ranks, direct
///
/// alltoall, gather and scatter have one baseline, "direct": each block goes straight to its rank.
///
/// In the node, the algorithm is the one that is fastest at 1 MiB: shared memory if the ranks share memory.
/// @throws usage_error for other names
candidate baseline(const hierarchy& machine, std::string_view name, collective what = collective::allreduce);

/// Predicts a call with `lanes` chunks of `chunk` bytes in flight (0: one chunk): docs/reference/cost-model.md.
prediction predict(const hierarchy& machine, const std::vector<stage>& stages, std::int64_t bytes, int lanes,
                   std::int64_t chunk, collective what = collective::allreduce);

/// Returns rules that run `c` at these sizes. Lanes and chunk follow tune(), the same for all algorithms.
std::vector<rule> tuned(const hierarchy& machine, const candidate& c, std::span<const std::int64_t> sizes,
                        collective what = collective::allreduce);

/// A candidate with its tuned rule. rank_candidates() returns all candidates, fastest first.
struct ranked {
    candidate what;
    rule how;
};
std::vector<ranked> rank_candidates(const hierarchy& machine, std::int64_t bytes,
                                    collective what = collective::allreduce);

/// Returns rules for all sizes of one baseline, or of the best scatter-only candidates ("staged"). All are exact.
/// @throws usage_error if the collective has no baseline of this name
std::vector<rule> rules_for(const hierarchy& machine, std::string_view origin, collective what = collective::allreduce);

/// Callback that gets a collective's rules as soon as they are made; called from several threads at once.
using rules_made = std::function<void(collective, const std::vector<rule>&)>;

/// Makes a whole plan, with rules for every collective. Deterministic: the same machine gives the same bytes.
/// @param reproducible makes the rules of reductions for communicators with options::reproducible
plan_data make_plan(const std::string& name, const hierarchy& machine, bool reproducible = false,
                    const rules_made& made = {});

/// Returns the plan for another machine of the same shape. These collectives get new rules, others keep theirs.
plan_data replanned(plan_data p, const hierarchy& machine, std::span<const collective> some, bool reproducible = false);

/// Returns a plan of the candidates at one place by price (0: the cheapest) at every size, to compare with the plan.
plan_data plan_by_place(const std::string& name, const hierarchy& machine, std::size_t place);

}  // namespace terrace::detail
