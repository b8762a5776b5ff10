#include "schedule/reduction_tree.hpp"

#include <algorithm>

namespace terrace::detail {

namespace {

// Adds the largest nodes in `within` that consist of places given.
void add_largest(tree_node within, std::span<const int> places, std::vector<tree_node>& found) {
    if (places.empty()) return;
    if (static_cast<int>(places.size()) == within.length()) {
        found.push_back(within);
        return;
    }
    const auto middle = std::lower_bound(places.begin(), places.end(), within.middle());
    add_largest(within.left(), {places.begin(), middle}, found);
    add_largest(within.right(), {middle, places.end()}, found);
}

}  // namespace

std::vector<tree_node> largest_nodes(std::span<const int> places, int all) {
    std::vector<tree_node> found;
    add_largest({0, all}, places, found);
    return found;
}

bool are_like_leaves(tree_node whole, std::span<const tree_node> parts) {
    if (parts.size() == 1) return true;
    const auto left = static_cast<std::size_t>(tree_node{0, static_cast<int>(parts.size())}.middle());
    if (parts[left].begin != whole.middle()) return false;
    return are_like_leaves(whole.left(), parts.first(left)) && are_like_leaves(whole.right(), parts.subspan(left));
}

}  // namespace terrace::detail
