#pragma once

#include <vector>

namespace terrace::detail {

/// Returns the rings of a group over nodes, each the positions in its order: as many as the largest node has positions.
/// Where nothing is known of nodes, the one ring in order. (algorithms/rings.cpp has a picture.)
/// @param nodes by position, ascending; empty: unknown   @param size positions
std::vector<std::vector<int>> node_rings(const std::vector<int>& nodes, int size);

}  // namespace terrace::detail
