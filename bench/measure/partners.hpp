#pragma once

#include <string>
#include <vector>

#include "base/index.hpp"
#include "bench/measure/flow.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

/// Senders and receivers on a level, as ranks of the world. `ranks` has the rank at each place of the machine.
struct partners {
    std::vector<int> to, from;  ///< peer of each rank, or no_rank
    std::vector<int> child;     ///< child of the level that contains each rank
    bool any = false;

    partners(const tree& shape, int l, const std::vector<int>& ranks)
        : to(at(shape.ranks()), no_rank), from(to), child(to.size()) {
        for (int r = 0; r < shape.ranks(); ++r) child[at(ranks[at(r)])] = shape.domain_of(l - 1, r);
    }
    void add(int sender, int receiver) {
        to[at(sender)] = receiver;
        from[at(receiver)] = sender;
        any = true;
    }
};

/// Pairs rank i of each child with rank i of the next child of the same domain, in a ring.
partners all_pairs(const tree& shape, int l, const std::vector<int>& ranks);
/// Pairs one rank each of the first two children with the same parent on the level, in both directions.
partners one_pair(const tree& shape, int l, const std::vector<int>& ranks);
/// Returns groups of rank i of each child of a domain, as in a collective among the children.
std::vector<std::vector<int>> fellows(const tree& shape, int l, const std::vector<int>& ranks);

/// Returns the file's rates of the links of a level's children [B/s].
std::vector<double> rates_of(const hierarchy& machine, int l);
/// Returns the rate that arrives at a child, as a fraction of the rate of its link: the largest of all children.
/// Collective. @param arrives_here the rate at this rank [B/s], which is summed over the ranks of a child
double largest_part(const world& w, const partners& p, const std::vector<double>& rates, double arrives_here);

/// Returns "level 2 of 3, rack", for progress.
std::string name_of(const hierarchy& machine, int l);

}  // namespace terrace::detail::bench
