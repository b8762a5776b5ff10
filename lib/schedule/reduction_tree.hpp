#pragma once

#include <bit>
#include <span>
#include <vector>

namespace terrace::detail {

/// A node of the one tree by which reproducible reductions combine the ranks: it stands for the ranks of consecutive
/// places, and every place alone is a leaf. Its left child has the first 2^k of the places, the largest power of two
/// below their number, its right child the others. So the tree of a node depends on nothing but its length.
struct tree_node {
    int begin = 0, end = 0;

    constexpr int length() const noexcept { return end - begin; }
    /// Returns where the right child begins. Of nodes of more than one place.
    constexpr int middle() const noexcept {
        return begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(length() - 1)));
    }
    constexpr tree_node left() const noexcept { return {begin, middle()}; }
    constexpr tree_node right() const noexcept { return {middle(), end}; }

    friend bool operator==(tree_node, tree_node) = default;
};

/// Returns the nodes that the ranks at some places can reduce among themselves: the largest ones that have no other
/// places, ascending.
/// @param places ascending   @param all how many places there are
std::vector<tree_node> largest_nodes(std::span<const int> places, int all);

/// Returns true if nodes are combined by the tree as leaves of a tree of as many places are: in their order, one
/// reduction by the tree gives what `whole` stands for.
/// @param parts ascending, all of `whole`
bool are_like_leaves(tree_node whole, std::span<const tree_node> parts);

}  // namespace terrace::detail
