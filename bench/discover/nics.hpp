#pragma once

#include <vector>

#include "bench/discover/probes.hpp"

namespace terrace::detail::bench {

/// The NICs by which ranks leave their nodes.
struct found_nics {
    std::vector<int> lanes;                 ///< by node: number of ranks that together use all its bandwidth
    std::vector<std::vector<int>> of_rank;  ///< NIC of each rank, by node; empty if all nodes have one NIC
    double rate = 0;                        ///< rate of one NIC, per direction [B/s]
    bool rails = false;                     ///< true: NICs of one number share a switch of their own
    double spine = 0;                       ///< rate of the link from such a switch to the others [B/s]
};

/// Compares the rate of one rank of a node with that of all, and finds ranks that do not slow each other down. If there
/// are rails, NICs of one number are on one rail, whatever the order of ranks is.
/// @param nodes ranks of each node; two nodes at least
found_nics find_nics(careful_probes& net, const std::vector<std::vector<int>>& nodes);

}  // namespace terrace::detail::bench
