#pragma once

#include <functional>

#include <terrace/communicator.hpp>

namespace terrace::loopback {

/// Tries a plan without MPI: runs `body` once per rank of the plan, each in a thread of its own with a communicator
/// over the process's memory, and returns when all have returned. If any throws, one of those exceptions is rethrown
/// here; the other ranks' collectives then fail with transport_error rather than hang.
TERRACE_API void run(const plan& p, const std::function<void(communicator&)>& body, const options& o = {});

/// The same by the plan in `o.plan_file`. @throws usage_error if that is empty, input_error
TERRACE_API void run(const std::function<void(communicator&)>& body, const options& o);

}  // namespace terrace::loopback
