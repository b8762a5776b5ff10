#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace terrace::detail {

/// Returns a rank's program as a table: each instruction with its operands, its step, the stage it belongs to, and the
/// instructions it waits for.
std::string program_listing(const schedule& s);

}  // namespace terrace::detail
