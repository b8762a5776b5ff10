#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail::test {

/// Vertices and links of a network. The first `ranks` vertices are ranks; the others only forward data.
struct network_graph {
    struct link {
        int from, to;
        double rate;  ///< [B/s], this direction
    };
    int ranks = 0, vertices = 0;
    std::vector<link> links;
};

/// Returns the graph of a machine's links: each domain is a vertex with a link to each child.
network_graph graph_of(const hierarchy& machine);

/// Returns the lower bound of an allgather of N bytes in all, N/P from each rank [s]: the data of the ranks in any set
/// S of vertices must leave S, so T = N/P max over S of |S| / B(S). Checks every set, so up to 22 vertices.
double allgather_bound(const network_graph& g, double bytes);

}  // namespace terrace::detail::test
