#pragma once

#include <span>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>

#include "machine/hierarchy.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// Makes a plan for some ranks of a plan's machine. `part` has exactly these ranks; its rank 0 plans for the remaining
/// part of the machine, and sends the plan to the others. Collective over `part`.
/// @param ranks in the numbering of `whole`, ascending   @throws plan_error on all ranks if no plan can be made
plan plan_part(const plan_data& whole, std::span<const int> ranks, team& part);

/// The machine of a job, as described by its ranks.
struct job {
    hierarchy machine;        ///< on rank 0; nodes in the order of their lowest rank, those of a switch together
    std::string levels_from;  ///< on rank 0: origin of the levels above nodes (job_machine)
    int place = 0;            ///< place of this rank in the machine
};

/// Describes all nodes of the ranks. hwloc runs once on each node, and equal descriptions are sent once. Ranks that are
/// bound to cores of their own have the places of these cores. options::topology_address gives the levels above nodes;
/// rank 0 warns if addresses contradict one another. Collective. @throws plan_error on all ranks if a node cannot be
/// described, naming its host
job describe_job(team& ranks, const options& o);

class kept_plans;

/// Makes a plan for the whole job on rank 0, or finds it in `kept` or in options::plan_cache. Collective.
/// @param ranks in the order of their places   @param kept gets the plan, on all ranks; null: plans are not kept
/// @throws plan_error on all ranks if no plan can be made
plan plan_job(const job& found, team& ranks, const options& o, kept_plans* kept = nullptr);

}  // namespace terrace::detail
