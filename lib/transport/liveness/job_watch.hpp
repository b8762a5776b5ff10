#pragma once

#include <chrono>
#include <memory>

#include "transport/liveness.hpp"
#include "transport/network.hpp"
#include "transport/ports.hpp"

namespace terrace::detail {

/// Watches the processes of a job: processes of this rank's node through its kernel, processes of other nodes through
/// lifelines. A process may end once it has destroyed the returned object. Collective over the team.
/// @param failure_timeout options::failure_timeout, above 0   @param ports at which this rank may listen
/// @throws transport_error
std::shared_ptr<liveness> watch_job(connection& by, std::chrono::duration<double> failure_timeout, port_range ports);

}  // namespace terrace::detail
