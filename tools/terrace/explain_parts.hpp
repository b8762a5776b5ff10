#pragma once

#include <string>

#include "plan/plan_data.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// Returns a table for `terrace explain --connections`: with how many ranks a rank exchanges messages, by collective.
std::string connections_text(const plan_data& plan);

/// Returns a rank's program as a table: each instruction with its operands, its step, the stage it belongs to, and the
/// instructions it waits for.
std::string program_listing(const schedule& s);

}  // namespace terrace::detail
