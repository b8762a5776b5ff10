#include "schedule/node_rings.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "base/partition.hpp"

namespace terrace::detail {

std::vector<int> node_starts(const std::vector<int>& nodes, int size) {
    std::vector<int> starts;
    for (int i = 0; i < size; ++i)
        if (i == 0 || nodes.empty() || nodes[at(i)] != nodes[at(i - 1)]) starts.push_back(i);
    starts.push_back(size);
    return starts;
}

std::vector<std::vector<int>> node_rings(const std::vector<int>& nodes, int size) {
    const std::vector<int> starts = node_starts(nodes, size);
    int rings = 1;
    for (std::size_t n = 0; n + 1 < starts.size(); ++n) rings = std::max(rings, starts[n + 1] - starts[n]);
    std::vector<std::vector<int>> orders(at(rings));
    for (int r = 0; r < rings; ++r)
        for (std::size_t n = 0; n + 1 < starts.size(); ++n) {
            const int first = starts[n], here = starts[n + 1] - first;
            for (int i = 0; i < here; ++i) orders[at(r)].push_back(first + wrap(n % 2 == 0 ? r + i : r - 1 - i, here));
        }
    return orders;
}

}  // namespace terrace::detail
