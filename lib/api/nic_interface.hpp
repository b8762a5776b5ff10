#pragma once

#include <string>
#include <vector>

#include "machine/nics.hpp"

namespace terrace::detail {

/// Returns which of a node's network interfaces is the rank's NIC: they are numbered by length of name and name, so
/// that eth10 comes after eth9. Empty if there are none in the plan, or not as many as interfaces.
std::string interface_of(const nic_set& nics, int rank, std::vector<std::string> interfaces);

}  // namespace terrace::detail
