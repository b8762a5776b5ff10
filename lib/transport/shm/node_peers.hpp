#pragma once

#include <algorithm>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

/// The ranks of one rank's machine node.
struct node_peers {
    std::vector<int> ranks;     ///< ascending; the rank itself among them
    std::vector<int> position;  ///< index into `ranks`, by rank of the team; -1 on other nodes
};

/// Returns the peers of a rank. @param nodes lowest rank on the same node, by rank: team::nodes
inline node_peers peers_of(const std::vector<int>& nodes, int rank) {
    node_peers found{{}, std::vector<int>(nodes.size(), -1)};
    for (int r = 0; r < static_cast<int>(nodes.size()); ++r) {
        if (nodes[at(r)] != nodes[at(rank)]) continue;
        found.position[at(r)] = static_cast<int>(found.ranks.size());
        found.ranks.push_back(r);
    }
    return found;
}

/// Returns the number of ranks of the largest node.
inline int most_on_a_node(const std::vector<int>& nodes) {
    std::vector<int> sizes(nodes.size());
    int most = 0;
    for (const int node : nodes) most = std::max(most, ++sizes[at(node)]);
    return most;
}

}  // namespace terrace::detail
