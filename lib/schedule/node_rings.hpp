#pragma once

#include <vector>

namespace terrace::detail {

/// Returns the first position of each node, and the end; where nothing is known of nodes, each position is one.
/// @param nodes, size as of node_rings()
std::vector<int> node_starts(const std::vector<int>& nodes, int size);

/// Returns the rings of a group over nodes, each the positions in its order: as many as the largest node has positions.
/// Where nothing is known of nodes, the one ring in order. (algorithms/rings.cpp has a picture.)
/// @param nodes by position, ascending; empty: unknown   @param size positions
std::vector<std::vector<int>> node_rings(const std::vector<int>& nodes, int size);

}  // namespace terrace::detail
