#pragma once

#include <exception>
#include <functional>
#include <vector>

#include <terrace/communicator.hpp>

#include "support/gpu_stand_in.hpp"

namespace terrace::detail::test {

/// Runs `body` once per rank of the plan, each in its own thread, which also creates the rank's communicator. Rank r
/// has device r of the stand-in.
/// @param tells whether a failed rank makes the other ranks' host messages fail
/// @param device_memory whether messages may use device memory
/// @returns each rank's exception, or null
std::vector<std::exception_ptr> run_on_stand_in(gpu_stand_in& on, const plan& p,
                                                const std::function<void(communicator&)>& body, const options& o = {},
                                                bool tells = true, bool device_memory = false);

}  // namespace terrace::detail::test
