#pragma once

#include <string>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Returns a table for `terrace explain --connections`: with how many ranks a rank exchanges messages, by collective.
std::string connections_text(const plan_data& plan);

}  // namespace terrace::detail
