#pragma once

#include <vector>

#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// How ranks of nodes leave these.
struct found_nics {
    std::vector<int> lanes;                 ///< by node: ranks that together carry what the node can
    std::vector<std::vector<int>> of_rank;  ///< by node and rank: its NIC there; empty where all have one NIC
    double rate = 0;                        ///< of a NIC, per direction [B/s]
    bool rails = false;                     ///< NICs of one number are on a switch of their own
    double spine = 0;                       ///< of the link of one such switch to the others [B/s]
};

/// Compares one rank of a node with all of them, and finds those that do not slow each other down. Where rails are
/// found, NICs of one number are on one rail, whatever the order of ranks is.
/// @param nodes ranks of each; two nodes at least
found_nics find_nics(careful_probes& net, const std::vector<std::vector<int>>& nodes);

}  // namespace terrace::detail::bench
