#pragma once

#include <terrace/export.hpp>

#include <functional>

#include <terrace/communicator.hpp>

namespace terrace::loopback {

/// Runs a plan without MPI: calls `body` once per rank of the plan, each in a thread of its own with a communicator
/// over the memory of this process, and returns when all have returned.
/// @throws one of the exceptions that `body` throws, if it does; collectives of the other ranks then throw
/// transport_error and do not wait for that rank
/// @throws plan_error, usage_error as mpi::create
TERRACE_API void run(const plan& p, const std::function<void(communicator&)>& body, const options& o = {});

/// Does the same with the plan in `o.plan_file`. @throws usage_error if that is empty; input_error if it cannot be read
TERRACE_API void run(const std::function<void(communicator&)>& body, const options& o);

}  // namespace terrace::loopback
