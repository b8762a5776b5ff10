#pragma once

#include <string>

#include "topology/model.hpp"

namespace terrace::detail {

/// The machine for a person: its levels with their rates, then its tree with equal siblings folded. Ends with a
/// newline.
std::string describe_text(const topology& t);

/// The machine for a program, as JSON. Ends with a newline.
std::string describe_json(const topology& t);

}  // namespace terrace::detail
