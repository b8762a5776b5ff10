#pragma once

#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/hardware.hpp"
#include "topology/part_list.hpp"

namespace terrace::detail {

/// Returns the levels between the ranks of one node: what joins them, such as NVLink, a switch, a socket.
/// @param ranks the part of each rank, at least one   @param order gets the order in which the ranks fill the levels
hierarchy find_levels(const part_list& parts, const hardware& h, std::vector<int> ranks, std::vector<int>& order);

}  // namespace terrace::detail
