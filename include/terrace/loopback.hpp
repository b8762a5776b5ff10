#pragma once

#include <terrace/export.hpp>

#include <functional>

#include <terrace/communicator.hpp>

namespace terrace::loopback {

/// Runs the ranks of a plan in this process: calls `body` once per rank, each in a thread of its own with a
/// communicator over the memory of this process. Returns when all threads have returned.
/// @throws the first exception that a `body` throws; collectives of the other ranks then throw transport_error instead
/// of waiting for that rank
/// @throws plan_error, usage_error as mpi::create
TERRACE_API void run(const plan& p, const std::function<void(communicator&)>& body, const options& o = {});

/// Does the same with the plan in `o.plan_file`. @throws usage_error if that is empty; input_error if it is invalid
TERRACE_API void run(const std::function<void(communicator&)>& body, const options& o);

}  // namespace terrace::loopback
