#pragma once

#include <chrono>
#include <memory>

#include "transport/liveness.hpp"
#include "transport/shared_region.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// Watches the processes of a job: those of this rank's node through its kernel, those of other nodes through
/// lifelines. A process may end once it has destroyed what this returns. Collective over the team.
/// @param memory that ranks of a node share; may be null
/// @param failure_timeout options::failure_timeout, above 0   @throws transport_error
std::shared_ptr<liveness> watch_job(team& ranks, region_source* memory, std::chrono::duration<double> failure_timeout);

}  // namespace terrace::detail
