#pragma once

#include <span>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>

#include "machine/hierarchy.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// Makes a plan for some ranks of a plan's machine: rank 0 of `part`, which has exactly these ranks, plans for what is
/// left of the machine, and sends the plan to the others. Collective over `part`.
/// @param ranks by the numbering of `whole`, ascending   @throws plan_error on all ranks if there is none
plan plan_part(const plan_data& whole, std::span<const int> ranks, team& part);

/// Returns the plan with rules of these collectives for a machine of other rates.
plan_data plan_anew(const plan_data& p, const hierarchy& machine, std::span<const collective> some, bool reproducible);

/// The machine that a job has, as its ranks find it.
struct job {
    hierarchy machine;        ///< on rank 0; nodes in the order of their lowest rank, but those of a switch together
    std::string levels_from;  ///< on rank 0: what the levels above nodes come from (job_machine)
    int place = 0;            ///< of this rank in it
};

/// Describes all nodes of the ranks: hwloc runs once on each, and equal nodes are described once. Ranks that are
/// bound to cores of their own are where those are. Above nodes are the levels of options::topology_address; rank 0
/// warns where the ranks' contradict one another. Collective. @throws plan_error on all ranks if a node cannot be
/// described, naming its host
job describe_job(team& ranks, const options& o);

class kept_plans;

/// Makes a plan for the whole job, on rank 0 of the ranks in their places, or finds it in `kept`, or in
/// options::plan_cache. Collective. @param kept takes the plan, on all ranks; null: none are kept
/// @throws plan_error on all ranks if there is none
plan plan_job(const job& found, team& ranks, const options& o, kept_plans* kept = nullptr);

}  // namespace terrace::detail
