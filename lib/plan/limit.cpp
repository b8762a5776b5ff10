#include "plan/limit.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Data that must cross some links, in vectors, and the rate of these links.
struct demand {
    double vectors = 0;
    double rate = 0;  // [B/s]
};

// Returns the number of directions in which a collective moves the vector: 1 to combine it, 1 to distribute it.
int directions(collective what) { return row_of(what).up + row_of(what).down; }

// Returns the vectors that cross the link of m of P ranks. Without blocks it is one. In a reduce_scatter or allgather
// it is the larger part of their own m blocks and all others. In an alltoall it is m (P - m) blocks, of which a vector
// has P. In a gather or scatter it is their own m blocks, or all others if the root is among the m ranks.
double vectors_of(collective what, double m, double ranks, bool has_the_root) {
    if (!row_of(what).blocks) return 1;
    if (!row_of(what).exchange) return std::max(m, ranks - m) / ranks;
    if (!row_of(what).has_root()) return m * (ranks - m) / ranks;
    return (has_the_root ? ranks - m : m) / ranks;
}

// Returns the rate of a node whose NICs are on rails [B/s]. A NIC is at most as fast as the NICs of the other nodes on
// its rail together, plus the spine.
double rail_rate(const nic_set& nics, int node) {
    double rate = 0;
    if (nics.spine == 0) return std::numeric_limits<double>::infinity();
    for (int nic = nics.first_of(node); nic < nics.first_of(node + 1); ++nic) {
        double others = 0;
        for (int n = 0; n < nics.nodes(); ++n)
            if (n != node && nics.count_of(n) > nic - nics.first_of(node))
                others += nics.rate(nics.first_of(n) + nic - nics.first_of(node));
        rate += std::min(nics.rate(nic), others + nics.spine);
    }
    return rate;
}

// Returns the demand on the link of one child. It may exceed that on all links together if the link is slow, and is the
// only one of rooted collectives and exchanges. The vector crosses the link, or some of its blocks (vectors_of).
// @param ratio bytes on the link as a part of those of the vector
demand of_one_child(const hierarchy& machine, int l, int child, double ratio, collective what) {
    const tree& t = machine.shape;
    const int ranks = t.first_rank(l - 1, child + 1) - t.first_rank(l - 1, child);
    const bool is_node = !machine.nics.empty() && l == machine.node_levels();
    const double most =
        is_node ? std::min(machine.rate(l, child), rail_rate(machine.nics, child)) : machine.rate(l, child);
    return {vectors_of(what, ranks, t.ranks(), child == 0), most / ratio};
}

void add_level(const hierarchy& machine, int l, collective what, std::vector<demand>& demands) {
    const level& of = machine.levels[at(l)];
    const int children = machine.shape.members(l);
    if (children < 2) return;
    // Smallest part of the vector's bytes on links of the level: data that go on to an outer level may be in the wire
    // type of that level.
    double ratio = 1;
    for (int outer = l; row_of(what).up && !row_of(what).has_root() && outer < machine.depth(); ++outer)
        ratio = std::min(ratio, wire_ratio(machine.levels[at(outer)].wire, sizeof(float)));
    const double sum =
        of.rates.empty() ? children * of.bandwidth : std::accumulate(of.rates.begin(), of.rates.end(), 0.0);
    // All n children together, each with a link. Combining an element needs n - 1 transfers between children,
    // distributing the result (or a block) another n - 1. Each leaves some child: (n-1) N bytes each way over n links.
    const double n = children;
    if (!row_of(what).has_root() && !row_of(what).exchange)
        demands.push_back({directions(what) * (n - 1) / n, sum / ratio / n});
    // The first child may have the root.
    const bool same_ranks = !row_of(what).blocks || machine.shape.uniform();
    const int different = of.rates.empty() && same_ranks && machine.nics.spine == 0 ? 2 : children;
    for (int child = 0; child < different; ++child) demands.push_back(of_one_child(machine, l, child, ratio, what));
}

// Adds the demands of cuts of a torus: into its nodes, which have links in all dimensions; and, by each dimension, into
// slabs with links of that dimension on both sides. The rate is that of all links which leave one part.
void add_torus(const hierarchy& machine, collective what, std::vector<demand>& demands) {
    const int first = machine.torus_level();
    if (first == machine.depth()) return;
    const auto add = [&](double parts, double out) {
        const double ranks = machine.ranks();
        const bool by_one = row_of(what).exchange || row_of(what).has_root();
        demands.push_back(
            {by_one ? vectors_of(what, ranks / parts, ranks, true) : directions(what) * (parts - 1) / parts, out});
    };
    const double nodes = machine.shape.members(first);
    double out_of_node = 0;
    for (int l = first; l < machine.depth(); ++l) {
        const double slabs = machine.shape.children(l, 0), children = machine.shape.members(l);
        const double all = machine.levels[at(l)].bandwidth * children;
        out_of_node += all / nodes;
        add(slabs, all / slabs);
    }
    add(nodes, out_of_node);
}

}  // namespace

double limit(const hierarchy& machine, std::int64_t bytes, collective what) {
    std::vector<demand> demands;
    add_torus(machine, what, demands);
    for (int l = 0; l < machine.torus_level(); ++l) add_level(machine, l, what, demands);
    double time = 0;
    for (const demand& d : demands) time = std::max(time, d.vectors * static_cast<double>(bytes) / d.rate);
    return time;
}

}  // namespace terrace::detail
