#pragma once

#include <string>

#include "topology/model.hpp"

namespace terrace::detail {

/// "infiniband", "bus, ring"
std::string fabric_text(const level& l);
/// "1 Gbit/s", or "500 Mbit/s to 1 Gbit/s" where links into the level differ.
std::string bandwidth_text(const level& l);

/// The machine for a person: its levels with their rates, then its tree with equal siblings folded. Ends with a
/// newline.
std::string describe_text(const topology& t);

/// The machine for a program, as JSON. Ends with a newline.
std::string describe_json(const topology& t);

}  // namespace terrace::detail
