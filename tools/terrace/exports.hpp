#pragma once

#include <string>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Open MPI's rankfile: every rank on the core of its node that has its number there. Nodes are the plan's `hosts`, or
/// the job's in their order (+n0, +n1) where it names none.
std::string rankfile(const hierarchy& machine);

/// Open MPI's host file: the plan's hosts with as many slots as they have ranks. @throws usage_error if it names none
std::string hostfile(const hierarchy& machine);

/// A platform file of SimGrid (version 4.1): a host per rank and a zone per domain, whose children hang on a router by
/// the level's links. A message's start-up is spread over the links it passes.
std::string simgrid_platform(const hierarchy& machine, const std::string& name);

/// The plan as JSON: machine, and by collective the rules with stages and predictions.
std::string plan_json(const plan_data& plan);

}  // namespace terrace::detail
