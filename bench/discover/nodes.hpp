#pragma once

#include <string>
#include <vector>

#include "bench/discover/discover.hpp"

namespace terrace::detail::bench {

/// Which ranks are on one node.
struct found_nodes {
    grouping groups;                         ///< of ranks: the nodes
    std::vector<near_level> inside, beyond;  ///< groups of ranks in nodes, and of whole nodes, by latency
    double latency = 0;                      ///< inside nodes, half a round trip [s]; 0: not known
    double confidence = 1;                   ///< of the nodes
    std::vector<std::string> notes;          ///< what a person should know, a sentence each
};

/// Finds nodes by latencies, and where these do not show them by rates; compares them with what hosts are called.
/// @param latency of pairs, [s]; holds all that were measured
found_nodes find_nodes(careful_probes& net, distances& latency, const discover_options& o);

}  // namespace terrace::detail::bench
