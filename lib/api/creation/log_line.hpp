#pragma once

#include <string>
#include <string_view>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Describes a communicator in one line: version, plan, shape, transports, allreduce by size, and how many rules the
/// other collectives have.
std::string log_line(const plan_data& plan, std::string_view transports);

}  // namespace terrace::detail
