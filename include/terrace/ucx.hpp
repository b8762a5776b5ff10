#pragma once

#include <terrace/export.hpp>

#include <terrace/communicator.hpp>
#include <terrace/store.hpp>

/// Communicators without MPI: UCX carries messages, over TCP, InfiniBand or RoCE. docs/guides/without-mpi.md.
namespace terrace::ucx {

/// Creates a communicator of all ranks of a job, which find one another by options::bootstrap. Collective: all ranks
/// call this equally often, in the same order. Each machine node must have as many ranks as in the plan, as with
/// mpi::create. The first call loads the modules terrace-ucx.so and, for PMIx, terrace-pmix.so.
/// @throws plan_error, input_error, usage_error as mpi::create; usage_error if options lack the number of this rank
/// @throws timeout_error if a rank has not come within options::timeout, naming it
/// @throws transport_error if UCX or PMIx reports an error, the directory cannot be used, or a module is missing on a
/// rank
TERRACE_API communicator create(const plan& p, const options& o);

/// Creates the same with the plan in `o.plan_file`; if it is empty on all ranks, a plan is made for the job.
TERRACE_API communicator create(const options& o);

/// Creates a communicator of ranks that find one another in a store of the caller.
TERRACE_API communicator create(const store& in, const plan& p, const options& o = {});
TERRACE_API communicator create(const store& in, const options& o = {});

}  // namespace terrace::ucx
