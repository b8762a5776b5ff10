#include "bench/discover/switches.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "bench/discover/level_search.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double waits = 0.9;  // of what comes from below, at most, that a link carries which slows it down

bool is_idle(const switch_level& inner, const switch_level& outer) {
    std::vector<int> parent(at(inner.groups.count));
    for (std::size_t n = 0; n < inner.groups.of.size(); ++n) parent[at(inner.groups.of[n])] = outer.groups.of[n];
    std::vector<double> from_below(outer.rates.size());
    for (std::size_t g = 0; g < inner.rates.size(); ++g) from_below[at(parent[g])] += inner.rates[g];
    for (std::size_t g = 0; g < outer.rates.size(); ++g)
        if (outer.rates[g] < waits * from_below[g]) return false;
    return true;
}

}  // namespace

switch_tree find_switches(const std::vector<observation>& seen, int nodes, const std::vector<grouping>& known) {
    groupings levels{grouping::each(nodes)};
    levels.insert(levels.end(), known.begin(), known.end());
    std::vector<double> confidence(levels.size(), 1);
    while (true) {
        double most = 0, sure = 0;
        std::size_t place = 0;
        grouping best;
        for (std::size_t below = 0; below < levels.size(); ++below) {
            level_search search(seen, levels, below);
            const auto found = search.find();
            if (!found || found->second <= most) continue;
            most = found->second;
            best = found->first;
            place = below + 1;
            sure = search.confidence();
        }
        if (place == 0) break;
        levels.insert(levels.begin() + static_cast<std::ptrdiff_t>(place), best);
        confidence.insert(confidence.begin() + static_cast<std::ptrdiff_t>(place), sure);
    }
    const hypothesis last(seen, levels);
    switch_tree tree;
    for (std::size_t l = 0; l < levels.size(); ++l) {
        switch_level& made = tree.emplace_back(switch_level{levels[l], {}, confidence[l]});
        for (int g = 0; g < levels[l].count; ++g) made.rates.push_back(last.capacity(l, g));
    }
    return tree;
}

void leave_out_idle(switch_tree& tree, const std::vector<grouping>& known) {
    for (std::size_t l = tree.size(); l-- > 1;)
        if (is_idle(tree[l - 1], tree[l]) && std::find(known.begin(), known.end(), tree[l].groups) == known.end())
            tree.erase(tree.begin() + static_cast<std::ptrdiff_t>(l));
}

}  // namespace terrace::detail::bench
