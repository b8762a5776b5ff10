#pragma once

#include <mpi.h>

#include <terrace/communicator.hpp>

namespace terrace::mpi {

/// A communicator of all ranks of `world`, which it duplicates; MPI must outlive it. Collective over `world`. All ranks
/// must pass the same plan and run the same version of Terrace: this is compared. The ranks of each machine node must
/// be as many as the plan says. Where the plan names its hosts, each node is where the plan has its host, whatever the
/// order of ranks; else nodes come in the order of their lowest rank.
/// @throws plan_error if the plan does not fit `world` or differs between ranks: on every rank, naming field and
/// values, or the host
/// @throws input_error if the plan's file names an algorithm that there is not, or not for its mode: line and column
/// @throws usage_error on every rank if a rank cannot begin the trace or its progress thread, naming the rank
/// @throws transport_error if MPI reports an error
TERRACE_API communicator create(MPI_Comm world, const plan& p, const options& o = {});

/// The same by the plan in `o.plan_file`, which every rank reads. A rank that cannot read it throws input_error, and
/// the others plan_error, naming it. Where that is empty on all ranks, the plan is made here: each node is described
/// once, with ranks where they are bound, and rank 0 plans (docs/environment.md).
TERRACE_API communicator create(MPI_Comm world, const options& o);

}  // namespace terrace::mpi
