#include "schedule/node_rings.hpp"

#include <algorithm>
#include <numeric>

#include "base/index.hpp"
#include "base/partition.hpp"

namespace terrace::detail {

std::vector<std::vector<int>> node_rings(const std::vector<int>& nodes, int size) {
    std::vector<int> starts;  // first position of each node, and the end
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i)
        if (i == 0 || nodes[at(i)] != nodes[at(i - 1)]) starts.push_back(i);
    starts.push_back(size);
    int rings = 1;
    for (std::size_t n = 0; n + 1 < starts.size(); ++n) rings = std::max(rings, starts[n + 1] - starts[n]);
    std::vector<std::vector<int>> orders(at(rings));
    if (nodes.empty()) {
        orders.assign(1, std::vector<int>(at(size)));
        std::iota(orders.front().begin(), orders.front().end(), 0);
        return orders;
    }
    for (int r = 0; r < rings; ++r)
        for (std::size_t n = 0; n + 1 < starts.size(); ++n) {
            const int first = starts[n], here = starts[n + 1] - first;
            for (int i = 0; i < here; ++i) orders[at(r)].push_back(first + wrap(n % 2 == 0 ? r + i : r - 1 - i, here));
        }
    return orders;
}

}  // namespace terrace::detail
