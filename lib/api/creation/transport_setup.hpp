#pragma once

#include <memory>

#include <terrace/options.hpp>

#include "executor/endpoint.hpp"
#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Connects the ranks and prepares all that the plan's stages require: MPI communicators for stages of MPI's own
/// collectives, and shared memory for stages on a node. Collective. @throws transport_error
std::unique_ptr<endpoint> equip(connection by, const plan_data& p, const options& o);

}  // namespace terrace::detail
