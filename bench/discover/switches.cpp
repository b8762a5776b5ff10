#include "bench/discover/switches.hpp"

#include <numeric>

#include "base/index.hpp"
#include "bench/discover/level_search.hpp"

namespace terrace::detail::bench {

switch_tree find_switches(const std::vector<observation>& seen, int nodes, const std::vector<grouping>& known) {
    std::vector<int> each(at(nodes));
    std::iota(each.begin(), each.end(), 0);
    groupings levels{grouping::numbered(each)};
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

}  // namespace terrace::detail::bench
