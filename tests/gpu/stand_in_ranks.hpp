#pragma once

#include <exception>
#include <functional>
#include <vector>

#include <terrace/communicator.hpp>

#include "support/gpu_stand_in.hpp"

namespace terrace::detail::test {

/// Runs `body` once per rank of the plan, each in a thread of its own, on a communicator with a device of the stand-in:
/// rank r has device r. Creation is in the threads, too.
/// @param tells whether the host messages of the others fail where a rank does
/// @param device_memory whether host messages may lie in memory of devices
/// @returns what each rank threw, null where nothing
std::vector<std::exception_ptr> run_on_stand_in(gpu_stand_in& on, const plan& p,
                                                const std::function<void(communicator&)>& body, const options& o = {},
                                                bool tells = true, bool device_memory = false);

}  // namespace terrace::detail::test
