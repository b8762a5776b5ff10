#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail::test {

/// Vertices, of which the first `ranks` are ranks and the others only pass things on, and links between them.
struct network_graph {
    struct link {
        int from, to;
        double rate;  ///< [B/s], this direction
    };
    int ranks = 0, vertices = 0;
    std::vector<link> links;
};

/// A machine's links: each child of a domain hangs on a vertex that stands for the domain.
network_graph graph_of(const hierarchy& machine);

/// The least time of an allgather of N bytes in all, N/P from each rank, on any graph: what the ranks of any set of
/// vertices hold must leave it, T = N/P max over S of |S| / B(S). Looks at every set; up to 22 vertices.
double allgather_bound(const network_graph& g, double bytes);

}  // namespace terrace::detail::test
