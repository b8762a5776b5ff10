#pragma once

#include <string>
#include <vector>

#include "base/index.hpp"
#include "bench/measure/flow.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail::bench {

/// Who talks to whom on a level: ranks of the world, which has `ranks` by place in the machine.
struct partners {
    std::vector<int> to, from;  ///< by rank; nobody
    std::vector<int> child;     ///< of the level, that it is in, by rank
    bool any = false;

    partners(const tree& shape, int l, const std::vector<int>& ranks)
        : to(at(shape.ranks()), nobody), from(to), child(to.size()) {
        for (int r = 0; r < shape.ranks(); ++r) child[at(ranks[at(r)])] = shape.domain_of(l - 1, r);
    }
    void add(int sender, int receiver) {
        to[at(sender)] = receiver;
        from[at(receiver)] = sender;
        any = true;
    }
};

/// Rank i of each child sends to rank i of the next child of the same domain, round and round.
partners all_pairs(const tree& shape, int l, const std::vector<int>& ranks);
/// The first two children of the level that have a sibling, one rank of each, both ways.
partners one_pair(const tree& shape, int l, const std::vector<int>& ranks);
/// Rank i of each child of a domain is a group, as a collective among children has them.
std::vector<std::vector<int>> fellows(const tree& shape, int l, const std::vector<int>& ranks);

/// By the file, or their ratios: the rates of the links of a level's children.
std::vector<double> rates_of(const hierarchy& machine, int l);
/// What arrives at a child, [B/s] over its ranks, as a part of its link's rate: at the child that gets the most of its.
/// Collective.
double largest_part(const world& w, const partners& p, const std::vector<double>& rates, double arrives_here);

/// "level 2 of 3, rack": for progress.
std::string name_of(const hierarchy& machine, int l);

}  // namespace terrace::detail::bench
