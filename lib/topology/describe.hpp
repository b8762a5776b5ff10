#pragma once

#include <string>

#include "topology/model.hpp"

namespace terrace::detail {

/// Returns the fabric of a level: "infiniband", "bus, ring".
std::string fabric_text(const level& l);
/// Returns "1 Gbit/s", or "500 Mbit/s to 1 Gbit/s" if links into the level differ.
std::string bandwidth_text(const level& l);

/// Returns a text about the machine for people: its levels with their rates, then its tree with equal siblings folded.
/// Ends with a newline.
std::string describe_text(const topology& t);

/// Returns a description of the machine for programs, as JSON. Ends with a newline.
std::string describe_json(const topology& t);

}  // namespace terrace::detail
