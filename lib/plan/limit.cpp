#include "plan/limit.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Vectors that must pass links, and the rate at which they can.
struct demand {
    double vectors = 0;
    double rate = 0;  // [B/s]
};

// Directions in which a collective moves the vector: to combine it, and to hand it out.
int directions(collective what) { return row_of(what).up + row_of(what).down; }

// The vectors that pass the link of m of P ranks: one, or their own blocks or all others'. Of m (P - m) blocks where
// each rank has one for each other, of which a vector has P; of their own m blocks on the way to or from a root, or of
// all others' where the root is among them.
double vectors_of(collective what, double m, double ranks, bool has_the_root) {
    if (!row_of(what).blocks) return 1;
    if (!row_of(what).exchange) return std::max(m, ranks - m) / ranks;
    if (!row_of(what).has_root()) return m * (ranks - m) / ranks;
    return (has_the_root ? ranks - m : m) / ranks;
}

// Of a node whose NICs are on rails: each is as fast as the other nodes' on its rail are together, but for what goes
// over the spine.
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

// One child alone, which is more where its link is slow; and that is all that a root demands. The vector goes through
// its link, or its blocks go out and those of all others come in, or blocks go out that are for each rank elsewhere.
// @param ratio of bytes on the link to those of the vector
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
    // What a vector may have of its bytes on links of the level: what goes on to an outer one may be in the wire type
    // of that.
    double ratio = 1;
    for (int outer = l; row_of(what).up && !row_of(what).has_root() && outer < machine.depth(); ++outer)
        ratio = std::min(ratio, wire_ratio(machine.levels[at(outer)].wire, sizeof(float)));
    const double sum =
        of.rates.empty() ? children * of.bandwidth : std::accumulate(of.rates.begin(), of.rates.end(), 0.0);
    // All n children together, each with a link. To combine an element takes n - 1 transfers between children, to hand
    // the result (or a block) to all another n - 1, and each leaves some child: (n-1) N bytes each way over n links.
    const double n = children;
    if (!row_of(what).has_root() && !row_of(what).exchange)
        demands.push_back({directions(what) * (n - 1) / n, sum / ratio / n});
    // The first one may hold the root.
    const bool same_ranks = !row_of(what).blocks || machine.shape.uniform();
    const int different = of.rates.empty() && same_ranks && machine.nics.spine == 0 ? 2 : children;
    for (int child = 0; child < different; ++child) demands.push_back(of_one_child(machine, l, child, ratio, what));
}

// A torus is cut into its nodes, which have links in all dimensions, and by each dimension into slabs, which have the
// links of that dimension to both sides. The rate is that of all links which leave one part.
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
