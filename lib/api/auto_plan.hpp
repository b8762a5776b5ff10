#pragma once

#include <span>

#include <terrace/plan.hpp>

#include "base/hierarchy.hpp"
#include "executor/transport.hpp"

namespace terrace {

/// A plan for some ranks of a plan's machine: made for what is left of the machine by rank 0 of `net`, which has
/// exactly these ranks, and sent to the others. Collective over `net`.
/// @param ranks by the numbering of `whole`, ascending   @throws plan_error on all ranks if there is none
plan plan_part(const recipe& whole, std::span<const int> ranks, transport& net);

/// The machine that a job has, as its ranks find it.
struct job {
    hierarchy machine;  ///< on rank 0; nodes in the order of their lowest rank
    int place = 0;      ///< of this rank in it
};

/// Describes all nodes of the ranks of `net`: hwloc runs once on each, equal nodes are told of once. Ranks that are
/// bound to cores of their own are where those are. Collective. @throws plan_error on all ranks if a node cannot be
/// described, naming its lowest rank
job describe_job(transport& net);

/// A plan for the whole job, made by rank 0 of `net`, which has its ranks in their places. Collective.
/// @throws plan_error on all ranks if there is none
plan plan_job(const job& found, transport& net);

}  // namespace terrace
