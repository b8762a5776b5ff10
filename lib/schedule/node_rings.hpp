#pragma once

#include <vector>

namespace terrace::detail {

/// Returns the first position of each node, then the size. If nodes are unknown, each position is a node.
/// @param nodes, size as of node_rings()
std::vector<int> node_starts(const std::vector<int>& nodes, int size);

/// Returns the rings of a group over nodes, each as positions in ring order: as many as the largest node has positions;
/// one, in order, if nodes are unknown. (algorithms/rings.cpp has a picture.)
/// @param nodes by position, ascending; empty: unknown   @param size positions
std::vector<std::vector<int>> node_rings(const std::vector<int>& nodes, int size);

}  // namespace terrace::detail
